"""The errors of a run against the ground truth of its shot: landmarks, curves, seam mattes, clean plates, holds.

    python benchmarks/truth.py RUN_DIR TRUTH.roto.json [--seam 'seam.####.png'] [--clean 'clean.####.jpg'] [--json FILE]

`RUN_DIR` is the output folder of `rotopaint run`. Only shapes and landmarks that both have are compared.
Conventions: plate space; face width is the horizontal extent of the true landmarks of a frame. Curve distance is the
symmetric mean distance between densely sampled curves. Matte recall counts true seam pixels (coverage of one half or
more) under a matte above zero; area is the matte's sum over the true seam's sum.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from rotopaint_ai.exchange import document
from rotopaint_ai.landmarks.metrics import rank_correlation
from rotopaint_ai.plates import open_plate
from rotopaint_ai.shapes.bezier import as_array, curve_distance
from rotopaint_ai.shapes.roto import RotoDocument


def _statistics(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    return {
        "mean": float(np.mean(values)),
        "p95": float(np.percentile(values, 95)),
        "max": float(np.max(values)),
        "n": len(values),
    }


def landmarks(found: RotoDocument, truth: RotoDocument, frames: list[int]) -> dict[str, Any]:
    """Distances of found visible landmarks, the number not found, and how well the expected error ranks frames."""
    rows = {name: i for i, name in enumerate(found.landmarks.names)}
    distances, expected, absent, seen = [], [], 0, 0
    for frame in frames:
        got = found.landmarks.keys.get(frame)
        for name, true in zip(truth.landmarks.names, truth.landmarks.keys.get(frame, ())):
            if true is None or name not in rows:
                continue
            seen += 1
            mark = got[rows[name]] if got else None
            if mark is None:
                absent += 1
                continue
            distances.append(float(np.hypot(mark.x - true.x, mark.y - true.y)))
            expected.append(mark.expected_error_px)
    rank = rank_correlation(np.array(expected), np.array(distances))
    return {**_statistics(distances), "called_hidden": absent / max(seen, 1), "expected_error_rank": rank}


def face_width(truth: RotoDocument, frame: int) -> float:
    """Horizontal extent in pixels of the true landmarks at a frame."""
    xs = [p.x for s in truth.shapes if frame in s.keys for p in s.at(frame)]
    return max(xs) - min(xs)


def curves(found: RotoDocument, truth: RotoDocument, frames: list[int]) -> dict[str, Any]:
    """Curve distance in pixels and in percent of the face's width, per shape and for all seams together."""
    names = {s.name for s in found.shapes}
    table: dict[str, Any] = {}
    seam: list[tuple[float, float]] = []
    others: list[float] = []
    for true in truth.shapes:
        if true.name not in names:
            continue
        mine, px, share = found.shape(true.name), [], []
        for frame in frames:
            if frame not in true.keys or not mine.keys:
                continue
            mean, _ = curve_distance(as_array(mine.at(frame)), as_array(true.at(frame)), true.closed)
            px.append(mean)
            share.append(100 * mean / face_width(truth, frame))
        table[true.name] = {**_statistics(px), "percent_of_face": float(np.mean(share)) if share else float("nan")}
        if true.role == "seam":
            seam += list(zip(px, share))
        else:
            others += px
    px_all, share_all = [p for p, _ in seam], np.array([s for _, s in seam])
    summary = {
        "seams": _statistics(px_all),
        "seams_within_1.5px": float(np.mean(np.array(px_all) <= 1.5)) if px_all else float("nan"),
        "seams_within_3_percent": float(np.mean(share_all <= 3)) if len(share_all) else float("nan"),
        "others": _statistics(others),
    }
    return {"shapes": table, **summary}


def seams_of_frames(found: RotoDocument, truth: RotoDocument, frames: list[int]) -> list[float]:
    """Mean distance in pixels of each frame's seams; infinite where no seam was found."""
    names = {s.name for s in found.shapes if s.keys}
    seams = [t for t in truth.shapes if t.role == "seam" and t.name in names]
    return [
        float(
            np.mean(
                [curve_distance(as_array(found.shape(t.name).at(f)), as_array(t.at(f)), t.closed)[0] for t in seams]
            )
        )
        if seams
        else float("inf")
        for f in frames
    ]


def frames_within(off: list[float], limits: list[float]) -> dict[str, float]:
    """Share of frames whose seam distance is within the limit of that frame, both in pixels."""
    good = [px <= limit for px, limit in zip(off, limits)]
    return {"frames": len(good), "share": float(np.mean(good)) if good else float("nan")}


def mattes(run: Path, seams: str, names: list[str], frames: list[int]) -> dict[str, float]:
    """Recall of the true seam's pixels and matte area over the true area."""
    recall, area = [], []
    plate = open_plate(seams, colourspace="linear")
    for frame in frames:
        true = plate.read(frame, keep_native=False).codes[..., 0] / 255.0
        matte = np.zeros(true.shape, np.float32)
        for name in names:
            path = run / "matte" / f"{name}.{frame:04d}.exr"
            if path.exists():
                read = open_plate(path).read(frame, keep_native=False)
                x, y = read.origin
                h, w = read.codes.shape[:2]
                matte[y : y + h, x : x + w] = np.maximum(matte[y : y + h, x : x + w], read.codes[..., 0])
        if true.sum() > 0:
            recall.append(float((matte[true >= 0.5] > 0).mean()))
            area.append(float(matte.sum() / true.sum()))
    return {"recall": float(np.mean(recall)), "area_ratio": float(np.mean(area))}


def clean_plates(run: Path, clean: str, seams: str, plate: str, frames: list[int]) -> dict[str, float]:
    """PSNR (8-bit display values) in the true seam grown by two pixels, before and after."""
    import cv2

    from rotopaint_ai.plates.colour import to_display

    made = next(iter(sorted((run / "clean").iterdir())))
    stem = made.name.rsplit(".", 2)
    mine = open_plate(str(run / "clean" / f"{stem[0]}.####.{stem[2]}"))
    true, seam, raw = open_plate(clean), open_plate(seams, colourspace="linear"), open_plate(plate)
    before, after = [], []
    for frame in frames:
        where = seam.read(frame, keep_native=False).codes[..., 0] > 0
        where = cv2.dilate(where.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
        target = to_display(true.read(frame, keep_native=False).rgb)[where] * 255
        for plate_of, errors in ((raw, before), (mine, after)):
            values = to_display(plate_of.read(frame, keep_native=False).rgb)[where] * 255
            errors.append(float(np.mean((values - target) ** 2)))
    decibel = [float(10 * np.log10(255**2 / np.mean(e))) for e in (before, after)]
    return {"before_db": decibel[0], "after_db": decibel[1]}


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--plate", help="pattern of the plate, for the figures before painting")
    parser.add_argument("--seam", help="pattern of 8-bit pictures of the true seam's coverage")
    parser.add_argument("--clean", help="pattern of the true clean plates")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found, truth = document.read(options.run / "shapes.roto.json"), document.read(options.truth)
    frames = sorted({f for s in truth.shapes for f in s.keys} & set(range(found.first_frame, found.last_frame + 1)))
    off = seams_of_frames(found, truth, frames)
    result: dict[str, Any] = {
        "frames": len(frames),
        "landmarks": landmarks(found, truth, frames),
        "curves": curves(found, truth, frames),
        "frames_within_3_percent": frames_within(off, [0.03 * face_width(truth, f) for f in frames]),
        "frames_within_1.5_px": frames_within(off, [1.5] * len(frames)),
    }
    if options.seam:
        seams = [s.name for s in found.shapes if s.role == "seam"]
        result["mattes"] = mattes(options.run, options.seam, seams, frames)
    if options.clean and options.seam and options.plate and (options.run / "clean").is_dir():
        result["clean"] = clean_plates(options.run, options.clean, options.seam, options.plate, frames)
    text = json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    if options.json:
        options.json.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
