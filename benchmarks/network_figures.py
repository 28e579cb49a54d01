"""Figures of a pack's detector or segmentation network on folders of plates, shots or data sets, one line each.

    python benchmarks/network_figures.py detector|matte PACK SOURCE... [--json FILE]

PACK is a pack, or a model's .onnx file. The detector is measured on scenes marked `test`, else `val`, else on all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import CROP_MARGIN
from rotopaint_ai.errors import PackError, RotopaintError
from rotopaint_ai.files import write_json
from rotopaint_ai.inference.models import FaceModel
from rotopaint_ai.inference.onnx_session import load_signature, open_session
from rotopaint_ai.inference.pack import DETECTOR, SEGMENTATION, check_detector_signature, load_pack
from rotopaint_ai.training.models.detection import scenes
from rotopaint_ai.training.models.segmentation import views

Figures = Callable[[Path], Mapping[str, Any]]


def open_detector(path: Path) -> Figures:
    """A detector, and the function that evaluates it on a folder."""
    signature = load_signature(path)
    check_detector_signature(signature, str(path))
    shape: Any = signature.inputs["picture"].shape
    example = {"picture": np.full((1, *shape[1:]), 0.5, np.float32)}
    model = FaceModel(open_session(path, device="cpu", threads=1, example=example))
    return lambda source: scenes.detection_figures(model, _test_scenes(scenes.read_scenes([source])), *model.size)


def _test_scenes(found: list[scenes.DetectionScene]) -> list[scenes.DetectionScene]:
    parts = ([scene for scene in found if scene.split == split] for split in ("test", "val"))
    return next(filter(None, parts), found)


def open_matte(path: Path) -> Figures:
    """A segmentation network, and the function that evaluates it on a folder, in pixels of its crop."""
    signature = load_signature(path)
    if "crop" not in signature.inputs or not set(views.CLASSES) <= set(signature.outputs):
        raise PackError(f"{path}: wanted a network from 'crop' to {' and '.join(views.CLASSES)}")
    side: Any = signature.inputs["crop"].shape[1]
    example = {"crop": np.full((1, side, side, 3), 0.5, np.float32)}
    session = open_session(path, device="cpu", threads=1, example=example)

    def read(crops: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        return session.run(views.CLASSES, {"crop": crops})

    return lambda source: views.segmentation_figures(read, views.read_views([source]), side, CROP_MARGIN)


def _file_of(pack: str, network: str) -> Path:
    if pack.endswith(".onnx"):
        return Path(pack)
    loaded = load_pack(pack)
    path = loaded.folder / (DETECTOR if network == "detector" else SEGMENTATION)
    if not path.is_file():
        raise PackError(f"{pack}: has no {path.name}; wanted a pack with that file, or the file itself")
    return path


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=("detector", "matte"))
    parser.add_argument("pack", help="pack or .onnx file")
    parser.add_argument("sources", nargs="+", type=Path, help="folders")
    parser.add_argument("--json", type=Path, help="write all numbers to a file")
    options = parser.parse_args()
    try:
        path = _file_of(options.pack, options.network)
        measure = (open_detector if options.network == "detector" else open_matte)(path)
        found = {str(source): dict(measure(source)) for source in options.sources}
    except RotopaintError as error:
        print(error, file=sys.stderr)
        return 2
    for name, figures in found.items():
        print(name, json.dumps(figures))
    if options.json:
        write_json(options.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
