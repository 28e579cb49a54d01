"""Clean plates of rendered puppets, against the render without a seam and against OpenCV's own inpainting."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.exchange import document
from rotopaint_ai.seams import cleanplate, visibility
from rotopaint_ai.seams.matte import seam_curves, seam_matte

pytestmark = pytest.mark.shared


def linear(values: np.ndarray) -> np.ndarray:
    v = values.astype(np.float32) / 255.0
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4).astype(np.float32)


def encoded(light: np.ndarray) -> np.ndarray:
    v = np.clip(light, 0.0, 1.0)
    return np.rint(255.0 * np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055))


def psnr(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    difference = a[where].astype(np.float64) - b[where]
    return float(10 * np.log10(255.0**2 / np.mean(difference**2)))


@pytest.mark.parametrize("shot", ["A_pip/test01", "A_pip/test02", "B_marrow/test01", "B_marrow/test02"])
def test_two_bank_beats_telea_by_three_decibels_with_either_matte(shared: Path, shot: str) -> None:
    folder = shared / "data" / "puppets" / shot
    plate, clean = (cv2.imread(str(folder / f"{name}.1009.jpg"))[..., ::-1] for name in ("plate", "clean"))
    seam = cv2.imread(str(folder / "seam.1009.png"), cv2.IMREAD_GRAYSCALE)
    region = cv2.dilate((seam > 0).astype(np.uint8), cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))) > 0
    roto = document.read(folder / "truth.roto.json")
    curves = seam_curves(roto.shapes, 1009)
    telea = psnr(cv2.inpaint(np.ascontiguousarray(plate), region.astype(np.uint8), 3, cv2.INPAINT_TELEA), clean, region)
    drawn = seam_matte(roto.shapes, 1009, roto.width, roto.height).paste(roto.width, roto.height)
    for matte in (region.astype(np.float32), np.maximum(drawn, region)):
        out = cleanplate.fill(linear(plate), matte, curves)
        assert psnr(encoded(out), clean, region) > telea + 3.0
        before, after = visibility.score(linear(plate), curves), visibility.score(out, curves)
        assert after - 1.0 < 0.4 * (before - 1.0)
