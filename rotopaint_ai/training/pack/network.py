"""Trains one network of a pack, such as the face detector, and puts its file into the pack.

A recipe names the task; `NETWORKS` contains it. Everything here is the same for all networks.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.inference.pack import CARD, load_card, write_card
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.training.models.backbone import load_pyramid
from rotopaint_ai.training.trainer.config import PACK, SHOT, load_config, load_plugins, read_content
from rotopaint_ai.training.trainer.cores import choose_threads
from rotopaint_ai.training.trainer.group import ALONE, Group
from rotopaint_ai.training.trainer.log import Budget
from rotopaint_ai.training.trainer.task import NETWORKS, Network, PartTask, TrainSources
from rotopaint_ai.training.trainer.trainer import Trainer, TrainResult

_EXPORT_S = 6.0
MODULES: Mapping[str, str] = {  # modules that register each network in NETWORKS
    "detector": "rotopaint_ai.training.models.detection.task",
    "segmentation": "rotopaint_ai.training.models.segmentation.task",
    "seam": "rotopaint_ai.training.models.seam.task",
    "fill": "rotopaint_ai.training.models.fill.task",
}


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of a training.

    `recipe`: a file or a shipped name (None: `character`). `overrides`: `key=value` texts. `init`: a pack to initialise
    from, `none` for random weights, None for the shipped pack if there is one. `resume`: continue from the checkpoint.
    `name`, `licence`, `command`: for a pack's card (defaults: the folder's name, the data sets' licences).
    """

    sources: Sequence[str | Path]
    out: Path
    recipe: str | Path | None = None
    overrides: Sequence[str] = ()
    init: str | Path | None = None
    resume: bool = False
    command: str = ""
    sink: Sink = lambda event: None
    cancel: Cancel | None = None
    group: Group = ALONE
    began: float | None = None  # start of the command by `time.time`, for the time limit; None: now
    name: str | None = None
    licence: str | None = None

    def folder(self, task: str) -> Path:
        """The folder of checkpoint, log and report, next to `out` and separate from that of the pack's own training."""
        part = "" if self.out.suffix == ".onnx" else f".{task}"
        return self.out.with_name(f"{self.out.name}{part}.run")


def find_task(recipe: str | None, overrides: Iterable[str] = ()) -> str:
    """The task of a recipe; `pack` if it names none. Raises UsageError."""
    load_plugins(recipe, overrides)  # plugins may register a network
    content, where = read_content(recipe)
    task = content.get("task", PACK)
    known = (PACK, SHOT, *MODULES, *(name for name in NETWORKS if name not in MODULES))
    if task not in known:
        raise UsageError(f"{where}: task {task!r}; wanted one of {', '.join(known)}")
    return str(task)


def find_network(task: str) -> Network:
    """The registered network of a task; imports the module of a shipped one."""
    if task in MODULES:
        import_module(MODULES[task])
    return NETWORKS[task]


def train_network(task: str, options: TrainOptions) -> Mapping[str, Any]:
    """A whole training: read data, initialise, train, evaluate, export, deliver.

    Of several ranks, only the first does the work other than training.
    Returns the metrics on validation data (empty on other ranks). Raises: UsageError, TrainingError, PackError;
    CancelledError on request, after saving the last step.
    """
    check_place(options.out)
    cancel, group = options.cancel or Cancel(), options.group
    network, folder = find_network(task), options.folder(task)
    config = load_config(network.config, options.recipe, options.overrides)
    budget = Budget(config.limit_s, began=options.began)
    folder.mkdir(parents=True, exist_ok=True)
    prepared = network.prepare(config, TrainSources(options.sources, options.init, folder, cancel.check))
    taken = load_pyramid(prepared.net, options.init)
    counts = {"samples": prepared.counts[0], "held_out": prepared.counts[1]}
    options.sink(Event("started", {"stage": "train", **counts, "init": taken}))
    if group.is_first:
        write_text(folder / "recipe.yaml", config.to_yaml())
    if note := choose_threads(config, prepared):
        options.sink(warning(note))
    if config.minutes is not None and group.is_first:
        budget.reserve(_tail_s(prepared))
    trained = Trainer(config, prepared, folder, group, budget).fit(
        resume=options.resume, sink=options.sink, check=cancel.check
    )
    group.leave()
    if not group.is_first:
        return {}
    cancel.check()
    metrics = prepared.metrics(trained.net)
    facts = _facts(options, config.name, taken, trained, metrics)
    facts["parity"] = deliver(options, network, folder, lambda path: prepared.export(trained.net, path), facts)
    write_json(folder / "report.json", facts)
    options.sink(Event("finished", {"stage": "train", "pack": str(options.out), "metrics": metrics}))
    return metrics


def _tail_s(task: PartTask[nn.Module, Any]) -> float:
    """Estimated seconds of evaluation and export, from one evaluation of the initial network."""
    start = time.perf_counter()
    task.metrics(copy.deepcopy(task.net).eval())
    return _EXPORT_S + time.perf_counter() - start


def _facts(
    options: TrainOptions, recipe: str, taken: str, trained: TrainResult[nn.Module], metrics: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "command": options.command,
        "recipe": recipe,
        "init": taken,
        "data": sorted({Path(source).name for source in options.sources}),
        "weights": sum(parameter.numel() for parameter in trained.net.parameters()),
        "steps": trained.steps,
        "minutes": round(trained.minutes, 2),
        "images_per_s": round(trained.images_per_s, 1),
        "bound_by": None if trained.profile is None else trained.profile.bound_by,
        "metrics": metrics,
    }


def check_place(out: Path) -> None:
    """Raises TrainingError unless `out` is a file to write (.onnx) or a pack to put a model into."""
    if out.suffix != ".onnx" and not (out / CARD).is_file():
        raise TrainingError(
            f"--out {out}: wanted a model pack to put the model into, or a file name that ends in .onnx"
        )


def deliver(
    options: TrainOptions, network: Network, folder: Path, write: Callable[[Path], float], facts: Mapping[str, Any]
) -> float:
    """Let `write` export the model, and store `facts` in a JSON file next to it or on the pack's card.

    Returns the result of `write`: the largest difference between file and network.
    """
    if options.out.suffix == ".onnx":
        parity = write(options.out)
        write_json(options.out.with_suffix(".json"), {**facts, "parity": parity})
        return parity
    card = load_card(options.out)
    made = folder / network.file
    parity = write(made)
    for name in (*network.others, network.file):
        if (folder / name).is_file():
            (folder / name).replace(options.out / name)
    write_card(options.out, _add_facts(card, network.card, {**facts, "parity": parity}))
    return parity


def _add_facts(card: Mapping[str, Any], place: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A card with `facts` at a path such as (training, fill)."""
    if not place:
        return dict(facts)
    inner = card.get(place[0], {})
    return {**card, place[0]: _add_facts(inner if isinstance(inner, dict) else {}, place[1:], facts)}
