"""How good a pack is on a data set: the pack's own ONNX files, cut and run as `rotopaint run` does, against the truth.

Distances are in plate pixels and in percent of the face's width. No torch: see the room `evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.training.data.dataset import Dataset, Split, write_picture
from rotopaint_ai.training.evaluation.figures import FACE_WIDTH, metrics
from rotopaint_ai.training.evaluation.predictions import Predictions, predict
from rotopaint_ai.training.evaluation.sheets import worst_cases

__all__ = ["FACE_WIDTH", "Evaluated", "choose", "evaluate", "has_learned", "measured"]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What was measured: the samples, what the pack said of them, and the numbers."""

    dataset: Dataset
    said: Predictions
    result: dict[str, Any]


def evaluate(
    pack: str | Path | None,
    dataset: Dataset,
    *,
    splits: tuple[Split, ...] = ("test",),
    contact: Path | None = None,
    check: Callable[[], None] = lambda: None,
    most_mattes: int | None = 60,
) -> dict[str, Any]:
    """Metrics of a pack on some splits of a data set (`test`; `val`, else all, where there is no such sample).

    `contact`: where to write a contact sheet of the worst cases. Raises: PackError; TrainingError when the pack and the
    data set share too few landmarks.
    """
    found = measured(pack, dataset, splits=splits, check=check, most_mattes=most_mattes)
    if contact is not None:
        write_picture(contact, worst_cases(found.dataset, found.said))
    return found.result


def measured(
    pack: str | Path | None,
    dataset: Dataset,
    *,
    splits: tuple[Split, ...] = ("test",),
    check: Callable[[], None] = lambda: None,
    most_mattes: int | None = None,
    eyes: tuple[str, str] | None = None,
) -> Evaluated:
    """As `evaluate`, with what the pack said of each sample."""
    loaded = load_pack(pack)
    chosen = choose(dataset, splits)
    said = predict(open_models(loaded, device="cpu"), chosen, check=check)
    result = {
        "pack": loaded.name,
        "dataset": chosen.name,
        "splits": sorted({s.split for s in chosen.samples}),
        "has_learned_them": has_learned(loaded.card, chosen),
        **metrics(chosen, said, eyes=eyes, most_mattes=most_mattes),
    }
    return Evaluated(chosen, said, result)


def has_learned(card: Mapping[str, Any], measured: Dataset) -> bool:
    """Whether a pack's card says that it has learned from some of the samples that it is measured on."""
    training = card.get("training")
    if not isinstance(training, Mapping) or not set(str(training.get("data")).split(" + ")) & {measured.name}:
        return False
    seen = {"train", "val"} if training.get("learned_held_out_at_last") is True else {"train"}
    return any(sample.split in seen for sample in measured.samples)


def choose(dataset: Dataset, splits: tuple[Split, ...]) -> Dataset:
    """The samples of some splits; of `val`, else all, where there is none."""
    for wanted in (splits, ("val",), ("train", "val", "test")):
        rows = dataset.rows_of(*cast(Any, wanted))
        if len(rows):
            return dataset.subset(rows)
    raise TrainingError(f"data set '{dataset.name}': no samples to evaluate on")
