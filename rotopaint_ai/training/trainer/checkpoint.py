"""A training's checkpoint on disk: whole or not there, and resumed only by the training that wrote it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.training.trainer.config import gives_config


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write beside and rename. Raises TrainingError where the disk refuses; the checkpoint before it then stays."""
    try:
        with replacing(path) as beside, beside.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except (OSError, RuntimeError) as error:  # torch hides what the disk said behind an error of its own
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:120]
        raise TrainingError(
            f"{path}: cannot be written ({reason}); make room and go on with --resume, from the checkpoint before"
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was written. Raises TrainingError for a file that is damaged, or something else."""
    damaged = f"{path}: cannot be read, it is damaged or no checkpoint; train again without --resume"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise TrainingError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from error
    except Exception as error:  # torch raises many kinds on a damaged file, and advises its own users
        raise TrainingError(damaged) from error
    if not isinstance(state, dict):
        raise TrainingError(damaged)
    return state


def resume_state(path: Path, config: Any, data: str) -> dict[str, Any] | None:
    """The state in a checkpoint; None where there is none.

    Raises: TrainingError for a damaged file, or where it was made with another config or from other data.
    """
    if not path.is_file():
        return None
    state = read_checkpoint(path)
    if "recipe" not in state or not gives_config(str(state["recipe"]), config):
        raise TrainingError(f"{path}: was made with another recipe; train again without --resume, or with that recipe")
    if state.get("data", data) != data:  # older ones do not say
        raise TrainingError(f"{path}: was made from other data; train again without --resume, or from those data")
    return state


@contextlib.contextmanager
def loading_state(path: Path) -> Iterator[None]:
    """Put the parts of a state in their places. Raises TrainingError where one is missing or does not fit."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise TrainingError(
            f"{path}: was made by another version, or from data with other landmarks; train again without --resume"
        ) from error
