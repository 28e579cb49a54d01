"""Missed faces and false faces: random boxes and 'auto' on plates without a face, rough boxes on faces of a data set.

    python benchmarks/no_face.py [PLATES ...] [--faces DATASET] [--model PACK] [--boxes 48] [--seed 1] [--json FILE]

PLATES show no face; a plate of one frame gets a third of the boxes. DATASET holds faces (`python -m
rotopaint_ai.stage dataset`), and each face is tested in a rough box. A box counts as a face where a run of that one
frame would paint it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import numpy as np  # noqa: E402

from rotopaint_ai.crops import Box, CropKeys  # noqa: E402
from rotopaint_ai.errors import CropError, PlateError  # noqa: E402
from rotopaint_ai.inference.models import Models, open_models  # noqa: E402
from rotopaint_ai.inference.pack import load_pack  # noqa: E402
from rotopaint_ai.landmarks.detect import Follower, LostLimits  # noqa: E402
from rotopaint_ai.pipeline.plan import instability_limit, propose_crop  # noqa: E402
from rotopaint_ai.plates.colour import to_display  # noqa: E402
from rotopaint_ai.plates.plate import Frame, Plate, open_plate  # noqa: E402
from rotopaint_ai.training.data.dataset import read_dataset  # noqa: E402


def is_face(frame: Frame, box: Box, models: Models) -> bool:
    """Whether a run of only this frame would paint inside the box."""
    pack, limits = models.pack, LostLimits(instability=instability_limit(models.pack.card))
    keys = CropKeys({frame.number: box.crop()})
    follower = Follower(
        models.detect, pack.input_size, keys, to_display, margin=pack.crop_margin, limits=limits, holds=None
    )
    return follower.step(frame.number, frame.rgb, frame.origin).lost is None


def boxes(plate: Plate, count: int, chance: random.Random) -> Iterator[tuple[Frame, Box]]:
    """Random boxes in random frames, a fifth to nine tenths of the height large."""
    for _ in range(count if len(plate.frames) > 1 else count // 3):
        try:
            frame = plate.read(chance.choice(plate.frames), keep_native=False)
        except PlateError:
            continue
        side = chance.uniform(0.2, 0.9) * min(plate.width, plate.height)
        yield frame, Box(chance.uniform(0, plate.width - side), chance.uniform(0, plate.height - side), side, side)


def look_for_none(pattern: str, models: Models, count: int, seed: int) -> dict[str, Any]:
    """The number of boxes on a plate without a face, how many counted as a face, and the result of 'auto'."""
    with open_plate(pattern) as plate:
        tried = [
            is_face(frame, box, models) for frame, box in boxes(plate, count, random.Random(f"{seed} {plate.name}"))
        ]
        try:
            proposed = bool(propose_crop(plate, plate.frames, models))
        except (CropError, PlateError):
            proposed = False
        return {"plate": plate.name, "boxes": len(tried), "taken_for_faces": sum(tried), "auto_proposes": proposed}


def look_for_faces(folder: Path, models: Models, seed: int) -> dict[str, Any]:
    """The number of faces in rough boxes (up to 40 % too large, 12 % off), and how many did not count as a face."""
    chance, tried = random.Random(seed), []
    for sample in read_dataset(folder).samples:
        points = np.array([mark[:2] for mark in sample.landmarks.values()])
        low, high = points.min(axis=0), points.max(axis=0)
        side = float((high - low).max())
        x, y = ((low + high) / 2 + [chance.uniform(-0.12, 0.12) * side for _ in "xy"]).tolist()
        side *= chance.uniform(0.95, 1.4)
        with open_plate(str(folder / sample.image)) as plate:
            number = next(each for each in plate.frames if plate.path_of(each).name == Path(sample.image).name)
            tried.append(
                is_face(plate.read(number, keep_native=False), Box(x - side / 2, y - side / 2, side, side), models)
            )
    return {"data_set": folder.name, "faces": len(tried), "taken_for_none": len(tried) - sum(tried)}


def main() -> int:
    """Test all given plates and data sets; print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plates", nargs="*", metavar="PLATES")
    parser.add_argument("--faces", type=Path, metavar="DATASET")
    parser.add_argument("--model", metavar="PACK")
    parser.add_argument("--boxes", type=int, default=48, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    models, rows = open_models(load_pack(given.model), device="cpu", threads=1), []
    for pattern in given.plates:
        rows.append(look_for_none(pattern, models, given.boxes, given.seed))
        print(json.dumps(rows[-1]), flush=True)
    if given.plates:
        sums = {name: sum(row[name] for row in rows) for name in ("boxes", "taken_for_faces", "auto_proposes")}
        rows.append({"plates": len(given.plates), **sums})
        print(json.dumps(rows[-1]))
    if given.faces:
        rows.append(look_for_faces(given.faces, models, given.seed))
        print(json.dumps(rows[-1]))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
