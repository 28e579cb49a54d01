"""A run's checkpoint on disk: whole or not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import replacing


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write beside and rename. Raises TrainingError where the disk refuses; the checkpoint before it then stays."""
    try:
        with replacing(path) as beside, beside.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except (OSError, RuntimeError) as error:  # torch hides what the disk said behind an error of its own
        said = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:120]
        raise TrainingError(
            f"{path}: cannot be written ({said}); make room and go on with --resume, from the checkpoint before"
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was written. Raises TrainingError for a file that is damaged."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds on a damaged file
        raise TrainingError(f"{path}: cannot be read ({error}); train again without --resume") from error
    return state
