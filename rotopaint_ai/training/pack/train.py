"""One call from data sets to a model pack: read, start from what is known, train, choose, export, measure.

    rotopaint train DATASET... --out PACK [--recipe FILE.yaml] [--set key=value]... [--init PACK] [--resume]

A run keeps its checkpoint, log, preview and recipe in `PACK.run` beside the pack, which `--resume` goes on from.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.inference.pack import CARD, READS_MIRRORED, write_card
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline.track import STILL
from rotopaint_ai.plates.colour import DISPLAY
from rotopaint_ai.sheet import mirrored_order
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.dataset import Dataset, Memory
from rotopaint_ai.training.evaluation.evaluate import FACE_WIDTH, evaluate
from rotopaint_ai.training.evaluation.learned import AT_LAST, JUDGED, card_frames
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_config
from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.validation import predict_held_out
from rotopaint_ai.training.models.pretrained import face_places, find_fill_model, find_others, find_seam_model
from rotopaint_ai.training.pack.export import as_crops, write_pack
from rotopaint_ai.training.pack.prepare import prepare
from rotopaint_ai.training.pack.select import (
    SeamSelection,
    SelectedModels,
    crop_model,
    select_models,
    shape_model,
    tune_seams,
)
from rotopaint_ai.training.trainer import threads
from rotopaint_ai.training.trainer.parallel.group import ALONE, Group
from rotopaint_ai.training.trainer.profile import Profile
from rotopaint_ai.training.trainer.trainer import Trained, Trainer

_CHECKED_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class TrainReport:
    """How a training went: the pack, its metrics on held-out samples, and where the time went (seconds)."""

    pack: Path
    metrics: dict[str, Any]
    parity: dict[str, float]
    seconds: dict[str, float]
    steps: int
    images_per_s: float
    profile: Profile | None = None


def train(
    datasets: Sequence[str | Path],
    out: str | Path,
    *,
    recipe: str | Path | None = None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
    resume: bool = False,
    name: str | None = None,
    licence: str | None = None,
    command: str = "",
    sink: Sink = lambda event: None,
    cancel: Cancel | None = None,
    group: Group = ALONE,
) -> TrainReport:
    """Train both models of a pack and write it to `out`; of several ranks the first does what is not training.

    `recipe`: a file or a shipped name (None: `character`); `overrides`: `key=value` texts. `init`: a pack to start
    from, `none` for nothing, None for the shipped pack where there is one. `resume` goes on from `out`.run. `name` and
    `licence` go on the card (defaults: the folder's name, the data sets' licences), and so does `command`.
    Raises: UsageError, TrainingError, PackError; CancelledError when `cancel` is raised, keeping the last checkpoint.
    """
    folder, watch, stop = Path(out), _Clock(), cancel or Cancel()
    config = load_config(recipe, overrides)
    _check_place(folder)
    with watch.measuring("loading"):
        ready = prepare(datasets, config, init, stop.check)
    config, data, train_data = ready.config, ready.data, ready.train_data
    held_memory = ready.task.data.held_out
    run_folder = folder.with_name(folder.name + ".run")
    run_folder.mkdir(parents=True, exist_ok=True)
    write_text(run_folder / "recipe.yaml", config.to_yaml())
    chosen_threads = threads.settle(config, ready.task)
    if chosen_threads.note:
        sink(warning(chosen_threads.note))
    n_held = len(held_memory)
    start = str(ready.transfer or "nothing")
    sink(Event("started", {"stage": "train", "samples": len(train_data), "held_out": n_held, "init": start}))
    with watch.measuring("training"):
        trained = Trainer(config, ready.task, run_folder, group).fit(
            resume=resume, report=lambda row: sink(row.event()), check=stop.check
        )
    group.leave()
    if not group.is_first:
        return TrainReport(folder, {}, {}, watch.seconds, trained.steps, 0.0)
    with watch.measuring("fitting"):
        mirror = mirrored_order(data.sheet)
        found = predict_held_out(trained.validated, held_memory, np.arange(n_held), config, exact=True, mirror=mirror)
        chosen = select_models(config, train_data, found, held_memory, mirror)
    with watch.measuring("seams"):
        seams = tune_seams(config, data, chosen, held_memory, find_seam_model(init), run_folder, stop.check)
    everything = data.subset(data.rows_of("train", "val"))
    card = _card(config, data, trained, name or folder.name, licence, command, start, chosen, seams, init)

    def put(where: Path, net: LandmarkNet, source: Dataset) -> dict[str, float]:
        stop.check()
        return write_pack(
            where,
            sheet=data.sheet,
            crop_model=crop_model(net, chosen, source),
            shape_model=shape_model(config, chosen, source),
            places=face_places(train_data.truth.landmarks),
            recipe_yaml=config.to_yaml(),
            samples=_real_samples(held_memory, config),
            card=card if net is trained.net else _not_yet(card),
            seam=seams.path,
            fill=find_fill_model(init),
            others=find_others(init),
        )

    with watch.measuring("export"):
        measured = folder if trained.net is trained.validated else run_folder / JUDGED
        parity = put(measured, trained.validated, train_data)
        if measured != folder:
            parity = put(folder, trained.net, everything)
    with watch.measuring("evaluation"):
        metrics = _measure(measured, folder, data, run_folder, card, parity, stop.check)
    report = TrainReport(folder, metrics, parity, watch.seconds, trained.steps, trained.images_per_s, trained.profile)
    bound = None if trained.profile is None else trained.profile.content()
    facts = {"metrics": metrics, "seconds": watch.seconds, "profile": bound}
    write_json(run_folder / "report.json", {**facts, "parity": parity})
    sink(Event("finished", {"stage": "train", "pack": str(folder), **facts}))
    return report


def _check_place(folder: Path) -> None:
    if folder.exists() and not (folder / CARD).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrainingError(
            f"{folder}: exists and is not a model pack; give --out a new folder or an old pack to replace"
        )


def _real_samples(memory: Memory, config: PackConfig) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    rows = np.linspace(0, len(memory) - 1, min(_CHECKED_SAMPLES, len(memory))).round().astype(int).tolist()
    batch = straight_batch(memory, rows, config.input_size, config.crop_margin)
    faces = np.where(np.isfinite(batch.landmarks), batch.landmarks, np.nanmean(batch.landmarks, axis=1, keepdims=True))
    return as_crops(batch.crops), faces.astype(np.float32)


def _card(
    config: PackConfig,
    data: Dataset,
    trained: Trained[LandmarkNet],
    name: str,
    licence: str | None,
    command: str,
    start: str,
    chosen: SelectedModels,
    seams: SeamSelection,
    init: str | Path | None,
) -> dict[str, Any]:
    return {
        "name": name,
        "created": datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
        "input_size": config.input_size,
        "crop_margin": config.crop_margin,
        "colour": dict(DISPLAY),
        "face_width": FACE_WIDTH,
        "licence": licence or data.licence,
        STILL: list(seams.still),
        READS_MIRRORED: chosen.mirror is not None,
        "training": {
            "command": command,
            "recipe": config.name,
            "data": data.name,
            "data_licence": data.licence,
            "train_samples": len(data.rows_of("train")),
            "held_out_samples": len(data.rows_of("val")),
            **card_frames(data, init),
            "characters": len({sample.character for sample in data.samples}),
            "init": start,
            **chosen.facts(data.sheet),
            **({"seam": seams.facts} if seams.facts else {}),
            AT_LAST: trained.net is not trained.validated,
            "steps": trained.steps,
            "minutes": round(trained.minutes, 2),
            "images_per_s": round(trained.images_per_s, 1),
        },
    }


def _not_yet(card: dict[str, Any]) -> dict[str, Any]:
    """The card of a pack before it learns from held-out samples as well."""
    return {**card, "training": {**card["training"], AT_LAST: False}}


def _measure(
    measured: Path,
    folder: Path,
    data: Dataset,
    run_folder: Path,
    card: dict[str, Any],
    parity: dict[str, float],
    check: Callable[[], None],
) -> dict[str, Any]:
    """Metrics of a pack on what it never trained on, into the card of the finished one.

    Where the finished one has learned from the held-out samples as well, they are those of the pack before that.
    """
    splits = cast(Any, ("test",) if len(data.rows_of("test")) else ("val",))
    metrics = evaluate(measured, data, splits=splits, contact=run_folder / "worst.jpg", check=check)
    write_card(folder, {**card, "parity": parity, "metrics": metrics})
    return metrics


class _Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measuring(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = round(time.perf_counter() - start, 2)
