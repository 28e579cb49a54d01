"""Make the README's picture: the sample shot run with the shipped pack, as plate, splines, seam matte, clean plate.

python scripts/picture.py [RUN_DIR]

Writes `docs/demo.png`, an animation of the shot's exposures, and beside it `docs/demo.json`: the frames, and the
SHA-256 of each file of the pack, which a test compares with the pack that ships.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.cli import main as rotopaint
from rotopaint_ai.exchange import document
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.inference.sample import find_sample
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.shapes.bezier import as_array, flatten
from rotopaint_ai.shapes.rasterise import matte, union
from rotopaint_ai.shapes.roto import RotoDocument

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "demo.png"
RECORD = PICTURE.with_suffix(".json")
SEAM, OTHER = (60, 170, 255), (255, 215, 120)  # blue, green, red
PANEL_PX = 230
FRAME_MS = 220

Pixels = npt.NDArray[np.uint8]
Window = tuple[int, int, int, int]


def exposures(shapes: RotoDocument) -> list[int]:
    """The first frame of each exposure, where the points of a shape differ from the frame before."""
    keys = [[(frame, key.points) for frame, key in sorted(shape.keys.items())] for shape in shapes.shapes]
    moved = {b[0] for rows in keys for a, b in itertools.pairwise(rows) if a[1] != b[1]}
    return sorted(moved | {rows[0][0] for rows in keys})


def face_window(shapes: RotoDocument, frames: list[int]) -> Window:
    """The square x, y, w, h of the plate that holds every shape on all frames, with a margin."""
    points = np.concatenate([as_array(s.at(frame))[:, :2] for s in shapes.shapes for frame in frames])
    low, high = points.min(0), points.max(0)
    side = min(int(1.1 * max(high - low)), shapes.width, shapes.height)
    x, y = ((low + high - side) / 2).astype(int)
    return max(0, min(x, shapes.width - side)), max(0, min(y, shapes.height - side)), side, side


def display(source: str, frame: int, window: Window) -> Pixels:
    """Display pixels (h, w, 3) of a window of a plate: blue, green, red."""
    rgb, _ = open_plate(source).read(frame).region(*window)
    pixels: Pixels = np.round(to_display(rgb) * 255).astype(np.uint8)[..., ::-1]
    return pixels


def panels(run: Path, source: str, shapes: RotoDocument, frame: int, window: Window) -> Pixels:
    """Plate, splines, seam matte and clean plate of a frame side by side."""
    plate = display(source, frame, window)
    scale = PANEL_PX / window[2]
    drawn = _fitted(plate)
    for shape in sorted(shapes.shapes, key=lambda s: s.role):  # seams on top
        line = (flatten(as_array(shape.at(frame)), shape.closed) - window[:2]) * scale - 0.5
        colour = SEAM if shape.role == "seam" else OTHER
        cv2.polylines(drawn, [np.round(line * 16).astype(np.int32)], shape.closed, colour, 1, cv2.LINE_AA, 4)
    seams = union(matte(s, frame, shapes.width, shapes.height) for s in shapes.shapes if s.role == "seam")
    x, y, w, h = window
    grey = np.round(seams.paste(shapes.width, shapes.height)[y : y + h, x : x + w] * 255).astype(np.uint8)
    made = next((run / "clean").iterdir()).name.rsplit(".", 2)
    clean = display(str(run / "clean" / f"{made[0]}.####.{made[2]}"), frame, window)
    return np.hstack([_fitted(plate), drawn, _fitted(cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR)), _fitted(clean)])


def _fitted(pixels: Any) -> Pixels:
    sized: Pixels = np.ascontiguousarray(cv2.resize(pixels, (PANEL_PX, PANEL_PX), interpolation=cv2.INTER_AREA))
    return sized


def write(run: Path) -> None:
    """Write the picture of a finished demo, and its record."""
    shapes = document.read(run / "shapes.roto.json")
    source = str(find_sample() / "plate.####.exr")
    frames = exposures(shapes)
    window = face_window(shapes, frames)
    animation = cv2.Animation()
    animation.frames = [panels(run, source, shapes, frame, window) for frame in frames]
    animation.durations = np.full(len(frames), FRAME_MS, np.int32)
    cv2.imwriteanimation(str(PICTURE), animation, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    record = {"frames": frames, "pack": load_pack(None).card["files"]}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def main() -> int:
    """Make the picture; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        metavar="RUN_DIR",
        help="a finished `rotopaint demo`; without it the demo runs first",
    )
    options = parser.parse_args()
    if options.run:
        write(options.run)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        code = rotopaint(["demo", "--out", folder])
        if code == 0:
            write(Path(folder))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
