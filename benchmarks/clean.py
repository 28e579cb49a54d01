"""Clean plates against the peers that can be installed: quality inside the true seam, and speed, in one run.

    python benchmarks/clean.py SHOT... [--every 4] [--peers PYTHON] [--json FILE]

A SHOT is a folder of plate.####, clean.#### and seam.#### pictures with truth.roto.json. Quality: PSNR in 8-bit sRGB
values over the true seam region grown by 2 px, every method given that same matte; squared errors are pooled over the
frames of a shot. `own matte` is drawn from the truth's seam curves at their stated width plus 2 px instead, and
judged over the same region. Flicker: mean absolute change from one frame to the next inside the region common to
both, over that of the clean render. Visibility: `rotopaint_ai.seams.visibility` before, after, and of the clean
render. Speed: process time at 1920 x 1080 (frames are enlarged to that height), OpenCV's Telea on the same 8-bit
crop and matte, both on one thread, taken in turns.

scikit-image and opencv-contrib are no dependencies of this product. `--peers` names a Python that has them
(`python -m venv V; V/bin/pip install opencv-contrib-python-headless scikit-image`); without it only OpenCV's own
two methods are compared.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.exchange import document
from rotopaint_ai.seams import cleanplate, visibility
from rotopaint_ai.seams.matte import seam_curves, seam_matte
from rotopaint_ai.shapes.roto import RotoDocument

Array = NDArray[Any]
GROW_PX = 2
MARGIN_PX = 32
RADIUS = 3.0
SPEED_HEIGHT = 1080

PEERS = """
import sys, numpy as np, cv2
from skimage.restoration import inpaint_biharmonic
cv2.setNumThreads(1)
data = np.load(sys.argv[1])
out = {}
for key in [k for k in data.files if k.startswith("plate")]:
    number = key[5:]
    plate, hole = data[key], data["hole" + number]
    light = inpaint_biharmonic(plate.astype(np.float32) / 255, hole > 0, channel_axis=-1)
    out["biharmonic" + number] = np.clip(np.rint(light * 255), 0, 255).astype(np.uint8)
    for name, how in (("fsr-fast", cv2.xphoto.INPAINT_FSR_FAST), ("fsr-best", cv2.xphoto.INPAINT_FSR_BEST)):
        if name == "fsr-best" and len(sys.argv) < 4:
            continue
        filled = np.zeros_like(plate)
        cv2.xphoto.inpaint(plate, (1 - hole) * 255, filled, how)
        out[name + number] = filled
np.savez(sys.argv[2], **out)
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """One frame's crop: 8-bit plate and clean render (RGB), the region judged, and where the crop stands."""

    frame: int
    plate: Array
    clean: Array
    hole: Array
    origin: tuple[int, int]


def linear(values: Array) -> Array:
    """8-bit sRGB to scene-linear float32."""
    v = values.astype(np.float32) / 255.0
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4).astype(np.float32)


def encoded(light: Array) -> Array:
    """Scene-linear to 8-bit sRGB."""
    v = np.clip(light, 0.0, 1.0)
    return np.rint(255.0 * np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)).astype(np.uint8)


def sights(folder: Path, every: int) -> list[Sight]:
    """The frames of a shot that have a clean render and a seam to see."""
    found = []
    for path in sorted(folder.glob("plate.*"))[::every]:
        if path.suffix not in (".jpg", ".png"):
            continue
        seam = cv2.imread(str(folder / f"seam.{path.name.split('.')[1]}.png"), cv2.IMREAD_GRAYSCALE)
        clean = cv2.imread(str(path.with_name(path.name.replace("plate", "clean"))))
        plate = cv2.imread(str(path))
        if plate is None or seam is None or clean is None or not seam.any():
            continue
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * GROW_PX + 1, 2 * GROW_PX + 1))
        hole = cv2.dilate((seam > 0).astype(np.uint8), disc)
        x, y, w, h = cv2.boundingRect(hole)
        window = slice(max(0, y - MARGIN_PX), y + h + MARGIN_PX), slice(max(0, x - MARGIN_PX), x + w + MARGIN_PX)
        shown, true = (np.ascontiguousarray(image[window][..., ::-1]) for image in (plate, clean))
        origin = (window[1].start, window[0].start)
        found.append(Sight(int(path.name.split(".")[1]), shown, true, np.ascontiguousarray(hole[window]), origin))
    return found


def own_matte(roto: RotoDocument, sight: Sight) -> Array:
    """Matte drawn from the truth's curves, 2 px wider on each side than they say, on the sight's crop."""
    from dataclasses import replace

    wider = [replace(s, width_px=(s.width_px or 4.0) + 2 * GROW_PX) for s in roto.shapes if s.role == "seam"]
    full = seam_matte(wider, sight.frame, roto.width, roto.height).paste(roto.width, roto.height)
    (x, y), (h, w) = sight.origin, sight.hole.shape
    return full[y : y + h, x : x + w]


def fills(roto: RotoDocument, sight: Sight) -> dict[str, Array]:
    """The frame filled by our methods and OpenCV's, 8-bit."""
    curves = seam_curves(roto.shapes, sight.frame, origin=sight.origin)
    light, hole = linear(sight.plate), sight.hole.astype(np.float32)
    mask = sight.hole * np.uint8(255)
    return {
        "untouched": sight.plate,
        "two-bank": encoded(cleanplate.fill(light, hole, curves, "two-bank")),
        "two-bank, own matte": encoded(cleanplate.fill(light, own_matte(roto, sight), curves, "two-bank")),
        "telea": cv2.inpaint(sight.plate, mask, RADIUS, cv2.INPAINT_TELEA),
        "ns": cv2.inpaint(sight.plate, mask, RADIUS, cv2.INPAINT_NS),
    }


def peer_fills(python: str, seen: list[Sight], best: bool) -> list[dict[str, Array]]:
    """The frames filled by scikit-image and opencv-contrib, in the Python that has them."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays = {f"{k}{i}": v for i, s in enumerate(seen) for k, v in (("plate", s.plate), ("hole", s.hole))}
        np.savez(given, **arrays)  # type: ignore[arg-type]  # the stub takes names for its own flag
        subprocess.run([python, "-c", PEERS, str(given), str(got), *(["best"] if best else [])], check=True)
        filled = np.load(got)
        names = ["biharmonic", "fsr-fast", *(["fsr-best"] if best else [])]
        return [{name: filled[f"{name}{i}"] for name in names} for i in range(len(seen))]


def psnr(squared: Iterable[float]) -> float:
    """dB of 8-bit values, from mean squared errors."""
    return float(10 * np.log10(255**2 / np.mean(list(squared))))


def flicker(frames: list[Array], seen: list[Sight]) -> float:
    """Mean absolute change between neighbouring frames where both are in the region."""
    changes = []
    for (a, first), (b, second) in zip(zip(frames, seen, strict=True), list(zip(frames, seen, strict=True))[1:]):
        x0, y0 = (max(first.origin[k], second.origin[k]) for k in (0, 1))
        x1, y1 = (min(s.origin[k] + s.hole.shape[1 - k] for s in (first, second)) for k in (0, 1))
        parts = [
            (v[y0 - s.origin[1] : y1 - s.origin[1], x0 - s.origin[0] : x1 - s.origin[0]].astype(np.float32))
            for image, s in ((a, first), (b, second))
            for v in (image, s.hole)
        ]
        both = (parts[1] > 0) & (parts[3] > 0)
        if both.any():
            changes.append(float(np.abs(parts[0] - parts[2])[both].mean()))
    return statistics.fmean(changes) if changes else float("nan")


def speed(roto: RotoDocument, sight: Sight, repeats: int) -> dict[str, float]:
    """Milliseconds of process time at 1080 lines: Telea and two-bank, in turns; and their ratio."""
    size = SPEED_HEIGHT / roto.height
    plate, hole = (
        cv2.resize(v, None, fx=size, fy=size, interpolation=cv2.INTER_CUBIC) for v in (sight.plate, sight.hole)
    )
    hole = (hole > 0).astype(np.uint8)
    curves = [(line * size, half * size) for line, half in seam_curves(roto.shapes, sight.frame, origin=sight.origin)]
    light, cover = linear(plate), hole.astype(np.float32)
    times: dict[str, list[float]] = {"telea_ms": [], "two_bank_ms": []}
    for _ in range(repeats + 1):
        start = time.process_time()
        cv2.inpaint(plate, hole, RADIUS, cv2.INPAINT_TELEA)
        middle = time.process_time()
        cleanplate.fill(light, cover, curves, "two-bank")
        times["telea_ms"].append(1e3 * (middle - start))
        times["two_bank_ms"].append(1e3 * (time.process_time() - middle))
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    return {**medians, "ratio": medians["telea_ms"] / medians["two_bank_ms"]}


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Everything this benchmark knows of one shot."""
    roto = document.read(folder / "truth.roto.json")
    seen = sights(folder, options.every)
    filled = [fills(roto, sight) for sight in seen]
    if options.peers:
        for mine, theirs in zip(filled, peer_fills(options.peers, seen, options.best), strict=True):
            mine.update(theirs)
    error: dict[str, list[float]] = {}
    outside = 0
    for sight, images in zip(seen, filled, strict=True):
        region = sight.hole > 0
        outside += int((images["two-bank"] != sight.plate)[~region].sum())
        for name, image in images.items():
            difference = image[region].astype(np.float32) - sight.clean[region]
            error.setdefault(name, []).append(float(np.mean(difference**2)))
    decibels = {name: psnr(values) for name, values in error.items()}
    peers = {n: v for n, v in decibels.items() if n != "untouched" and not n.startswith("two-bank")}
    best = max(peers, key=lambda n: peers[n])
    curves = [seam_curves(roto.shapes, s.frame, origin=s.origin) for s in seen]
    seen_as = {
        name: statistics.fmean(visibility.score(linear(image), c) for image, c in zip(images, curves, strict=True))
        for name, images in (
            ("before", [s.plate for s in seen]),
            ("after", [f["two-bank"] for f in filled]),
            ("clean render", [s.clean for s in seen]),
        )
    }
    still = flicker([s.clean for s in seen], seen)
    return {
        "shot": "/".join(folder.parts[-2:]),
        "frames": len(seen),
        "psnr_db": decibels,
        "best_peer": best,
        "gain_db": decibels["two-bank"] - peers[best],
        "gain_own_matte_db": decibels["two-bank, own matte"] - peers[best],
        "values_changed_outside": outside,
        "flicker_over_clean": flicker([f["two-bank"] for f in filled], seen) / still,
        "visibility": seen_as,
        "speed_1080p": speed(roto, seen[len(seen) // 2], options.repeats),
    }


def table(result: Mapping[str, Any]) -> str:
    """One shot's figures as a person reads them."""
    decibels = ", ".join(f"{name} {value:.2f}" for name, value in result["psnr_db"].items())
    fast, shown = result["speed_1080p"], result["visibility"]
    return (
        f"{result['shot']} ({result['frames']} frames)\n"
        f"  PSNR dB: {decibels}\n"
        f"  over the best peer ({result['best_peer']}): {result['gain_db']:+.2f} dB with the true matte, "
        f"{result['gain_own_matte_db']:+.2f} dB with a matte drawn from curves\n"
        f"  values changed outside the matte: {result['values_changed_outside']}; "
        f"flicker over the clean render's: {result['flicker_over_clean']:.2f}; "
        f"visibility {shown['before']:.1f} -> {shown['after']:.1f} (clean render {shown['clean render']:.1f})\n"
        f"  1080p: Telea {fast['telea_ms']:.1f} ms, two-bank {fast['two_bank_ms']:.1f} ms, ratio {fast['ratio']:.2f}\n"
    )


def main() -> int:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=4, help="use every so many frames; flicker wants 1")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--peers", help="a Python with scikit-image and opencv-contrib")
    parser.add_argument("--best", action="store_true", help="also xphoto's slow FSR (seconds a frame)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    results = []
    for shot in options.shots:
        results.append(measure(shot, options))
        sys.stdout.write(table(results[-1]))
        sys.stdout.flush()
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
        options.json.write_text(json.dumps({"machine": machine, "shots": results}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
