"""Figures of a pack's detector on plates, data sets and shots with their roto.

    python -m rotopaint_ai.training.models.detection.evaluate PACK SOURCE... [--json FILE]

PACK is a pack or a detector's .onnx file; every source gets a line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.models import FaceModel
from rotopaint_ai.inference.pack import check_detector_signature, load_pack
from rotopaint_ai.inference.session import open_session, read_signature
from rotopaint_ai.training.evaluation.folder_evaluation import FolderEvaluation, main
from rotopaint_ai.training.models.detection.figures import figures
from rotopaint_ai.training.models.detection.scenes import DetectionScene, read_scenes


def open_model(pack: str) -> FaceModel:
    """The detector of a pack, or of a file. Raises PackError where there is none."""
    path = Path(pack) if pack.endswith(".onnx") else load_pack(pack).detector_path
    if path is None:
        raise PackError(f"{pack}: has no detector.onnx; train one: rotopaint train PLATES --recipe detector --out PACK")
    signature = read_signature(path)
    check_detector_signature(signature, str(path))
    shape: Any = signature.inputs["picture"].shape
    example = {"picture": np.full((1, *shape[1:]), 0.5, np.float32)}
    return FaceModel(open_session(path, device="cpu", threads=1, example=example))


def held_out(scenes: list[DetectionScene]) -> list[DetectionScene]:
    """Scenes marked `test`, else `val`, else all."""
    for split in ("test", "val"):
        if found := [scene for scene in scenes if scene.split == split]:
            return found
    return scenes


def open_evaluation(pack: str) -> FolderEvaluation:
    """The detector of a pack, or of a file, and how it is evaluated. Raises PackError where there is none."""
    model = open_model(pack)
    return FolderEvaluation(
        model.session, lambda source: figures(model, held_out(read_scenes([source])), *model.size), per="picture"
    )


if __name__ == "__main__":
    sys.exit(main(__doc__ or "", "detector.onnx", "plates, data sets, shots", open_evaluation))
