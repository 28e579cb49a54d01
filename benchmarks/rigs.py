"""Rig removal on frames of the stage, against peers: PSNR inside the rig's matte, mean and worst frame.

    python benchmarks/rigs.py [--seeds 71004 71006] [--frames 16] [--size 640x360] [--every 4]

Each puppet is held by an arm, by wires and by a magnet foot, with a locked and with a panning camera. The matte is the
rig's coverage grown by 3 px. The peers are OpenCV's Telea and Navier-Stokes on the same 8-bit pictures, and the median
of all frames without alignment. Figures use 8-bit sRGB codes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.cli import main as rotopaint
from rotopaint_ai.stage.puppet_shot import StageShot, write_shot
from rotopaint_ai.stage.rigs import KINDS

Array = NDArray[Any]
GROW_PX = 3
RADIUS_PX = 5  # inpainting radius of the peers


def pictures(folder: Path, name: str) -> list[Array]:
    """All pictures of a shot with a name, as (H, W, 3) 8-bit codes."""
    return [np.asarray(cv2.imread(str(path))) for path in sorted(folder.glob(f"{name}.*.png"))]


def ours(folder: Path) -> list[Array]:
    """The frames after `rotopaint clean --rig`."""
    out = folder / "out"
    words = ["clean", str(folder / "plate.####.png"), "--mattes", str(folder / "matte.####.png"), "--out", str(out)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as output:
        code = rotopaint([*words, "--rig"])
    if code:
        raise SystemExit(output.getvalue())
    return pictures(out / "clean", "plate")


def peers(plates: Sequence[Array], holes: Sequence[Array]) -> Mapping[str, list[Array]]:
    """The frames filled by each peer."""
    median = np.median(np.stack(plates), 0).astype(np.uint8)
    ways: Mapping[str, Callable[[Array, Array], Any]] = {
        "Telea": lambda plate, hole: cv2.inpaint(plate, hole, RADIUS_PX, cv2.INPAINT_TELEA),
        "Navier-Stokes": lambda plate, hole: cv2.inpaint(plate, hole, RADIUS_PX, cv2.INPAINT_NS),
        "median": lambda plate, hole: np.where(hole[..., None] > 0, median, plate),
    }
    return {name: [np.asarray(way(p, h)) for p, h in zip(plates, holes)] for name, way in ways.items()}


def psnr(made: Array, true: Array, hole: Array) -> float:
    """Decibels inside a hole (H, W)."""
    apart = (made.astype(np.float64) - true)[hole > 0]
    return float(10 * np.log10(255.0**2 / max(float(np.mean(apart**2)), 1e-6)))


def measure(folder: Path, shot: StageShot, every: int) -> Mapping[str, list[float]]:
    """PSNR of each method on every `every`-th frame of a shot."""
    write_shot(folder, shot, suffix=".png")
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * GROW_PX + 1, 2 * GROW_PX + 1))
    holes = [cv2.dilate((rig[..., 0] > 0).astype(np.uint8), disc) for rig in pictures(folder, "rig")]
    for k, hole in enumerate(holes):
        cv2.imwrite(str(folder / f"matte.{shot.first_frame + k:04d}.png"), 255 * hole)
    plates, clean = pictures(folder, "plate"), pictures(folder, "clean")
    made = {"ours": ours(folder), **peers(plates, holes)}
    evaluated = [k for k in range(0, len(plates), every) if holes[k].any()]
    return {name: [psnr(frames[k], clean[k], holes[k]) for k in evaluated] for name, frames in made.items()}


def main() -> int:
    """Render the shots, measure, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[71004, 71006])
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--every", type=int, default=4)
    given = parser.parse_args()
    width, height = (int(side) for side in given.size.split("x"))
    for seed in given.seeds:
        for kind in KINDS:
            for pan in (0.0, 0.15 * width):
                shot = StageShot(seed, width, height, frames=given.frames, face_px=0.27 * height, rig=kind, pan_px=pan)
                with tempfile.TemporaryDirectory() as folder:
                    found = measure(Path(folder), shot, given.every)
                cells = (f"{name} {np.mean(db):.1f}, {min(db):.1f}" for name, db in found.items())
                print(seed, kind, "panned" if pan else "locked", *cells, sep=" | ", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
