"""A session of corrections as a picture: one row before the first key and after each key, with some poses of the shot.

    python benchmarks/session_strip.py RUN_DIR=TRUTH.roto.json OUT.png [--poses 5] [--threshold 1.0] [--hand 0.25]

The session is simulated by `keys.py` with Teach. Seams are drawn over the plate: visible parts are green within the
threshold of the true seam and red outside it. A keyed pose has a yellow frame.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import keys
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.shapes.bezier import as_array, sample
from rotopaint_ai.shapes.roto import RotoDocument

Picture = NDArray[np.uint8]

GREEN, RED, YELLOW, WHITE = (90, 220, 60), (60, 60, 255), (0, 215, 255), (255, 255, 255)
HEIGHT = 190  # size of a pose's picture, pixels
MARGIN = 0.16  # margin around the seams, as a share of their extent
LABEL = 30  # pixels above each row


def main() -> int:
    """Simulate the session and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shot", metavar="RUN=TRUTH")
    parser.add_argument("out", type=Path)
    parser.add_argument("--poses", type=int, default=5)
    parser.add_argument("--threshold", type=float, default=1.0)
    parser.add_argument("--hand", type=float, default=0.25, help="noise of a person's points, pixels")
    options = parser.parse_args()
    run, _, truth = options.shot.partition("=")
    shot = keys.load(Path(run), Path(truth), options.hand)
    found = keys.simulate(shot, keys.teach_result, options.threshold, oracle=False)
    rows = [_row(shot, found["keyed"][:n], options) for n in range(len(found["keyed"]) + 1)]
    if not cv2.imwrite(str(options.out), np.vstack(rows)):
        parser.error(f"{options.out}: cannot be written")
    print(f"{options.out}: {len(found['keyed'])} of {len(set(map(min, shot.holds.values())))} poses keyed")
    return 0


def _row(shot: keys.Shot, keyed: Sequence[int], options: argparse.Namespace) -> Picture:
    document = keys.teach_result(shot, keys.hand_keyed(shot, keyed))[0] if keyed else shot.predicted
    starts = sorted(set(map(min, shot.holds.values())))
    off = {frame: _farthest(shot, document, frame) for frame in starts}
    wrong = sum(far > options.threshold for far in off.values())
    shown = [starts[k] for k in np.linspace(0, len(starts) - 1, options.poses).round().astype(int)]
    poses = np.hstack([_pose(shot, document, frame, frame in keyed, options.threshold) for frame in shown])
    line = np.zeros((LABEL, poses.shape[1], 3), np.uint8)
    what = f"{len(keyed)} keyed" if keyed else "as run"
    text = f"{what}: {len(starts) - wrong} of {len(starts)} poses right, worst {max(off.values()):.1f} px"
    cv2.putText(line, text, (8, LABEL - 9), cv2.FONT_HERSHEY_SIMPLEX, 0.55, WHITE, 1, cv2.LINE_AA)
    return np.vstack([line, poses])


def _farthest(shot: keys.Shot, document: RotoDocument, frame: int) -> float:
    return max(_off(shot, document, shape.name, frame) for shape in document.shapes)


def _off(shot: keys.Shot, document: RotoDocument, name: str, frame: int) -> float:
    return keys.distance(document.shape(name).at(frame), shot.truth[name][frame], shot.seen[name][frame])


def _pose(shot: keys.Shot, document: RotoDocument, frame: int, is_keyed: bool, threshold: float) -> Picture:
    """The plate around a pose's true seams, with its current seams."""
    line = np.concatenate([each[frame] for each in shot.truth.values()])
    low, high = np.array([line.real.min(), line.imag.min()]), np.array([line.real.max(), line.imag.max()])
    rgb = to_display(keys.plates_of(shot.folder).read(frame, keep_native=False).rgb)
    side, middle = (1 + 2 * MARGIN) * (high - low).max() / 2, (low + high) / 2
    grow = HEIGHT / (2 * side)
    motion = np.array([[grow, 0, HEIGHT / 2 - grow * middle[0]], [0, grow, HEIGHT / 2 - grow * middle[1]]])
    bgr = np.ascontiguousarray(np.rint(np.clip(rgb, 0, 1) * 255).astype(np.uint8)[..., ::-1])
    picture = cv2.warpAffine(bgr, motion, (HEIGHT, HEIGHT), flags=cv2.INTER_CUBIC)
    for shape in document.shapes:
        far = _off(shot, document, shape.name, frame)
        at = sample(as_array(shape.at(frame)), False, spacing=0.5) @ motion[:, :2].T + motion[:, 2]
        colour = GREEN if far <= threshold else RED
        cv2.polylines(picture, [np.rint(at * 16).astype(np.int32)], False, colour, 1, cv2.LINE_AA, shift=4)
    if is_keyed:
        cv2.rectangle(picture, (1, 1), (HEIGHT - 2, HEIGHT - 2), YELLOW, 3)
    return np.asarray(picture, np.uint8)


if __name__ == "__main__":
    sys.exit(main())
