"""Figures of a pack's second opinion on shots with their seam's coverage, and on data sets.

    python -m rotopaint_ai.training.segmentation.evaluate PACK SOURCE... [--json FILE]

PACK is a pack or a matte.onnx file; every source gets a line. Pixels are those of the crop.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import CROP_MARGIN
from rotopaint_ai.errors import PackError, RotopaintError
from rotopaint_ai.files import write_json
from rotopaint_ai.inference.pack import check_matte_signature, load_pack
from rotopaint_ai.inference.session import Session, open_session, read_signature
from rotopaint_ai.training.segmentation.figures import figures
from rotopaint_ai.training.segmentation.views import read_views


def open_model(pack: str) -> tuple[Session, int]:
    """The second opinion of a pack, or of a file, and the side of its crop. Raises PackError where there is none."""
    path = Path(pack) if pack.endswith(".onnx") else load_pack(pack).matte_path
    if path is None:
        raise PackError(f"{pack}: has no matte.onnx; train one: rotopaint train SHOTS --recipe segmentation --out PACK")
    signature = read_signature(path)
    check_matte_signature(signature, str(path))
    side = signature.inputs["crop"].shape[1]
    assert isinstance(side, int)  # was checked
    example = {"crop": np.full((1, side, side, 3), 0.5, np.float32)}
    return open_session(path, device="cpu", threads=1, example=example), side


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", help="pack or matte.onnx")
    parser.add_argument("sources", nargs="+", type=Path, help="shots, folders of shots, data sets")
    parser.add_argument("--json", type=Path, help="write all numbers to a file")
    options = parser.parse_args()
    try:
        session, side = open_model(options.pack)

        def opine(crops: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
            return session.run(("seam", "face"), {"crop": crops})

        found: dict[str, Any] = {}
        for source in options.sources:
            found[str(source)] = figures(opine, read_views([source]), side, CROP_MARGIN)
            print(source, json.dumps(found[str(source)]))
        if options.json:
            write_json(options.json, {**found, "ms_per_crop": session.ms_per_call})
    except RotopaintError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
