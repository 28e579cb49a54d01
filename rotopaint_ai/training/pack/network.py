"""What `rotopaint train` can train besides the two models of a pack: a recipe names its task, the table knows it.

A task's part reads its own recipe and data and puts one more model into a pack (or writes it as a file of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy.typing as npt
import torch
from torch import nn

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.inference.pack import CARD, load_card, write_card
from rotopaint_ai.jobs import Cancel, Event, Sink
from rotopaint_ai.training.models.pretrained import find_weights
from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.checkpoint import data_print
from rotopaint_ai.training.trainer.fitting import Fit, Row, Schedule
from rotopaint_ai.training.trainer.recipe import read_content

PACK_TASK = "pack"  # landmarks and shapes, which `train.train` does
MODULES = {
    "detector": "rotopaint_ai.training.models.detection.task",
    "segmentation": "rotopaint_ai.training.models.segmentation.task",
}


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked of a task: data, where to, the recipe and changes of it, and how the run speaks and stops."""

    sources: Sequence[str]
    out: Path
    recipe: str
    overrides: Sequence[str]
    init: str | None
    resume: bool
    command: str
    sink: Sink
    cancel: Cancel
    task: str = ""

    @property
    def folder(self) -> Path:
        """Where checkpoint, log and report lie: beside what is written, not with those of the pack's own training."""
        task = f".{self.task}" if self.task and self.out.suffix != ".onnx" else ""
        return self.out.with_name(f"{self.out.name}{task}.run")


class Task(Protocol):
    """Trains one kind of model and returns its metrics on held-out data."""

    def __call__(self, order: Order) -> Mapping[str, Any]: ...


_HELD_BACK = 0.1

TASKS: Registry[Task] = Registry("task")


def task_of(recipe: str | None) -> str:
    """The task that a recipe names; `pack` where it names none. Raises UsageError."""
    if recipe is None:
        return PACK_TASK
    content, where = read_content(recipe)
    task = content.get("task", PACK_TASK)
    known = (PACK_TASK, *MODULES)
    if task not in known:
        raise UsageError(f"{where}: task {task!r}; wanted one of {', '.join(known)}")
    return str(task)


def run_task(task: str, order: Order) -> Mapping[str, Any]:
    """Train. Raises: UsageError, TrainingError; CancelledError when asked to stop."""
    import_module(MODULES[task])  # it enters itself in the table
    check_place(order.out)
    order = replace(order, task=task)
    order.folder.mkdir(parents=True, exist_ok=True)
    return TASKS[task](order)


def check_place(out: Path) -> None:
    """Raises TrainingError unless `out` is a file to write (.onnx) or a pack to put a model into."""
    if out.suffix != ".onnx" and not (out / CARD).is_file():
        raise TrainingError(
            f"--out {out}: wanted a model pack to put the model into, or a file name that ends in .onnx"
        )


class Sample(Protocol):
    """A picture with its truth, marked for training (`train`), for judging (`val`) or kept out of both (`test`)."""

    @property
    def split(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def picture(self) -> npt.NDArray[Any]: ...


S = TypeVar("S", bound=Sample)
Net = TypeVar("Net", bound=nn.Module)


def split(samples: Sequence[S]) -> tuple[list[S], list[S]]:
    """Samples to learn from and held-out ones: those marked `val`, else the last ones.

    Raises: TrainingError where there are too few, or where a picture that is held out is learnt from as well. Where no
    sample is marked, frames of a hold may stand on both sides of the line; they are not learnt from then.
    """
    held = [sample for sample in samples if sample.split == "val"]
    learn = [sample for sample in samples if sample.split == "train"]
    is_marked = bool(held)
    if not held and len(learn) > 1:
        count = max(1, round(len(learn) * _HELD_BACK))
        learn, held = learn[:-count], learn[-count:]
    if not learn or not held:
        raise TrainingError("nothing to train on and hold back; wanted at least 2 pictures of split 'train'")
    twins = _twins(learn, held)
    if twins and is_marked:
        one, other = next(iter(twins.items()))
        raise TrainingError(
            f"{held[other].name} is held out and learnt from as {learn[one].name}, the same picture; keep one of them"
        )
    learn = [sample for row, sample in enumerate(learn) if row not in twins]
    if not learn:
        raise TrainingError("nothing to train on: all pictures are the same as those held back; wanted others")
    return learn, held


def _twins(learn: Sequence[Sample], held: Sequence[Sample]) -> dict[int, int]:
    """Rows of samples to learn from whose very picture is held out, each with the held-out sample's row."""
    known = {data_print([sample.picture]): row for row, sample in enumerate(held)}
    found = {row: known.get(data_print([sample.picture])) for row, sample in enumerate(learn)}
    return {row: other for row, other in found.items() if other is not None}


def take_over(net: nn.Module, init: str | None) -> str:
    """Start a network from what fits it of a pack's landmark network: its backbone and pyramid. Says what was taken.

    `init` as in `rotopaint train`: a pack, `none`, or None for the shipped one. Raises: PackError, TrainingError.
    """
    weights = find_weights(init)
    if weights is None:
        return "nothing"
    state = net.state_dict()
    fits = {
        name: torch.tensor(t) for name, t in weights.tensors.items() if name in state and state[name].shape == t.shape
    }
    net.load_state_dict({**state, **fits})
    return f"{len(fits)} of {len(state)} tensors of the landmark network in {Path(weights.where).name}"


def conduct(
    order: Order,
    plan: Schedule,
    net: Net,
    samples: Sequence[S],
    *,
    fit: Callable[[Net, Sequence[S]], Fit[Net, Any]],
    judge: Callable[[Net, Sequence[S]], Mapping[str, Any]],
    write: Callable[[Net, Path, Sequence[S]], float],
    name: str,
) -> Mapping[str, Any]:
    """A whole training: hold samples back, start from the landmark network, fit, judge on the held-back, deliver.

    `write` writes the model `name` and returns how far it is from the network. Returns what `judge` finds.
    """
    learn, held = split(samples)
    taken = take_over(net, order.init)
    said = {"samples": len(learn), "held_out": len(held), "init": taken}
    order.sink(Event("started", {"stage": "train", **said}))
    write_text(order.folder / "recipe.yaml", plan.to_yaml())
    fitting = fit(net, learn)
    if order.resume:
        fitting.load()
    net = fitting.run(lambda row: order.sink(progress(plan, row)), order.cancel.check)
    found = judge(net, held)
    facts = {
        "command": order.command,
        "recipe": plan.name,
        "init": taken,
        "data": sorted({Path(source).name for source in order.sources}),
        "weights": sum(parameter.numel() for parameter in net.parameters()),
        "steps": fitting.at,
        "minutes": round(fitting.seconds / 60, 2),
        "metrics": found,
    }
    deliver(order, name, lambda path: write(net, path, held), facts)
    write_json(order.folder / "report.json", facts)
    order.sink(Event("finished", {"stage": "train", "pack": str(order.out), "metrics": found}))
    return found


def deliver(order: Order, name: str, write: Callable[[Path], float], facts: Mapping[str, Any]) -> float:
    """Have `write` write the model to its place, and what is known of it beside it or on the pack's card.

    Returns what `write` does: the largest difference between file and network.
    """
    if order.out.suffix == ".onnx":
        parity = write(order.out)
        write_json(order.out.with_suffix(".json"), {**facts, "parity": parity})
        return parity
    card = load_card(order.out)
    made = order.folder / f"{name}.onnx"
    parity = write(made)
    made.replace(order.out / f"{name}.onnx")
    write_card(order.out, {**card, name: {**facts, "parity": parity}})
    return parity


def progress(plan: Schedule, row: Row) -> Event:
    """How far a run is, as an event."""
    parts = {name: round(value, 4) for name, value in row.parts.items()}
    facts = {"step": row.step, "minutes": round(row.minutes, 2), "loss": round(row.loss, 4), **parts}
    more = {"images_per_s": round(row.images_per_s, 1), "waiting_share": round(row.waiting_share, 3)}
    return Event("progress", {"stage": "train", "share": round(row.progress, 4), **facts, **more})
