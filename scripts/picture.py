"""Make the README's picture from a finished run: plate with splines, seam matte, clean plate, side by side.

python scripts/picture.py RUN_DIR PLATES FRAME OUT.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cv2
import numpy as np

from rotopaint_ai.exchange import document
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.shapes.bezier import as_array, flatten
from rotopaint_ai.shapes.rasterise import matte, union

SEAM, OTHER = (60, 170, 255), (255, 215, 120)  # blue, green, red
SCALE = 2


def shown(source: str, frame: int, window: tuple[int, int, int, int]) -> np.ndarray:
    """Display pixels (h, w, 3) of a window x, y, w, h of a plate, enlarged."""
    x, y, w, h = window
    rgb, _ = open_plate(source).read(frame).region(x, y, w, h)
    picture = np.round(to_display(rgb) * 255).astype(np.uint8)[..., ::-1]
    return cv2.resize(picture, None, fx=SCALE, fy=SCALE, interpolation=cv2.INTER_CUBIC)


def main() -> None:
    """Draw and write."""
    run, plates, frame, out = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    shapes = document.read(run / "shapes.roto.json")
    facts = json.loads((run / "run.json").read_text())
    points = np.concatenate([as_array(s.at(frame))[:, :2] for s in shapes.shapes])
    low, high = points.min(0), points.max(0)
    side = int(1.12 * max(high - low))
    x, y = (int(v) for v in (low + high - side) / 2)
    window = (max(x, 0), max(y, 0), min(side, shapes.width - x), min(side, shapes.height - y))
    drawn = shown(plates, frame, window)
    for shape in sorted(shapes.shapes, key=lambda s: s.role):  # seams on top
        line = (flatten(as_array(shape.at(frame)), shape.closed) - window[:2]) * SCALE - 0.5
        pixels = np.round(line * 16).astype(np.int32)
        cv2.polylines(drawn, [pixels], shape.closed, SEAM if shape.role == "seam" else OTHER, 2, cv2.LINE_AA, 4)
    seams = union(matte(s, frame, shapes.width, shapes.height) for s in shapes.shapes if s.role == "seam")
    grey = seams.paste(shapes.width, shapes.height)[window[1] :, window[0] :][: window[3], : window[2]]
    grey = cv2.resize(np.round(grey * 255).astype(np.uint8), None, fx=SCALE, fy=SCALE)
    made = sorted((run / "clean").iterdir())[0].name.rsplit(".", 2)
    clean = shown(str(run / "clean" / f"{made[0]}.####.{made[2]}"), frame, window)
    strip = np.hstack([shown(plates, frame, window), drawn, cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR), clean])
    cv2.imwrite(out, cv2.resize(strip, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA))
    sys.stdout.write(f"{out}: frame {frame} of {facts['plate']['name']}\n")


if __name__ == "__main__":
    main()
