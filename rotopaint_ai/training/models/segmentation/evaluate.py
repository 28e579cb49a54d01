"""Figures of a pack's second opinion on shots with their seam's coverage, and on data sets.

    python -m rotopaint_ai.training.models.segmentation.evaluate PACK SOURCE... [--json FILE]

PACK is a pack or a matte.onnx file; every source gets a line. Pixels are those of the crop.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import CROP_MARGIN
from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.pack import check_matte_signature, load_pack
from rotopaint_ai.inference.session import ModelSession, open_session, read_signature
from rotopaint_ai.training.evaluation.folder_evaluation import FolderEvaluation, main
from rotopaint_ai.training.models.segmentation.figures import figures
from rotopaint_ai.training.models.segmentation.views import read_views


def open_model(pack: str) -> tuple[ModelSession, int]:
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


def open_evaluation(pack: str) -> FolderEvaluation:
    """The second opinion of a pack, or of a file, and how it is evaluated. Raises PackError where there is none."""
    session, side = open_model(pack)

    def opine(crops: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        return session.run(("seam", "face"), {"crop": crops})

    return FolderEvaluation(session, lambda source: figures(opine, read_views([source]), side, CROP_MARGIN), per="crop")


if __name__ == "__main__":
    sys.exit(main(__doc__ or "", "matte.onnx", "shots, folders of shots, data sets", open_evaluation))
