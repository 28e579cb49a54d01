"""One call from data sets to a model pack: read, start from what is known, train, calibrate, fit shapes, export, judge.

    rotopaint train DATASET... --out PACK [--recipe FILE.yaml] [--set key=value]... [--init PACK] [--resume]

A run keeps its checkpoint, log, preview and recipe in `PACK.run` beside the pack, which `--resume` goes on from.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.inference.pack import CARD, READS_MIRRORED, write_card
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline.snap_seams import STILL
from rotopaint_ai.plates.colour import DISPLAY
from rotopaint_ai.sheet import Sheet, mirror_permutation, mirrored_order
from rotopaint_ai.training.data import dataset_checks
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.dataset import Dataset, Memory, face_side, join, load_pictures, read_dataset
from rotopaint_ai.training.data.rigid_structure import choose_relief
from rotopaint_ai.training.data.seam_widths import with_seam_widths
from rotopaint_ai.training.evaluation.evaluate import FACE_WIDTH, evaluate
from rotopaint_ai.training.evaluation.learned import AT_LAST, JUDGED, card_frames
from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.preview import Splines
from rotopaint_ai.training.models.landmarks.task import Task, Trained, build_net, fit_landmarks
from rotopaint_ai.training.models.landmarks.validation import predict_held_out
from rotopaint_ai.training.models.pretrained import (
    Taken,
    face_places,
    find_fill_model,
    find_others,
    find_seam_model,
    find_weights,
    take_over,
)
from rotopaint_ai.training.pack.export import as_crops, write_pack
from rotopaint_ai.training.pack.select import Chosen, Seams, choose, crop_model, shape_model, teach_seams
from rotopaint_ai.training.trainer import threads
from rotopaint_ai.training.trainer.log import Row
from rotopaint_ai.training.trainer.parallel.group import ALONE, Group
from rotopaint_ai.training.trainer.profile import Profile
from rotopaint_ai.training.trainer.recipe import Recipe, load_recipe

LOAD_MARGIN = 1.15  # pictures are kept this much larger than the crop, so that a closer crop still has its detail
HELD_BACK = 0.12  # share of each shot, at its end, that is held out where a data set has no `val` split
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
    plan = load_recipe(recipe, overrides)
    _check_place(folder)
    with watch.measuring("loading"):
        ready = prepare(datasets, plan, init, stop.check)
    plan, data, learn, taken = ready.recipe, ready.data, ready.learn, ready.taken
    held_memory = ready.task.held_out
    run_folder = folder.with_name(folder.name + ".run")
    run_folder.mkdir(parents=True, exist_ok=True)
    write_text(run_folder / "recipe.yaml", plan.to_yaml())
    chosen_threads = threads.settle(plan, ready.net)
    if chosen_threads.note:
        sink(warning(chosen_threads.note))
    n_held = len(held_memory)
    sink(Event("started", {"stage": "train", "samples": len(learn), "held_out": n_held, "init": _said(taken)}))
    with watch.measuring("training"):
        trained = fit_landmarks(
            plan,
            ready.net,
            ready.task,
            run_folder,
            resume=resume,
            report=lambda row: sink(_progress(plan, row)),
            check=stop.check,
            group=group,
        )
    group.leave()
    if not group.is_first:
        return TrainReport(folder, {}, {}, watch.seconds, trained.steps, 0.0)
    with watch.measuring("fitting"):
        mirror = mirrored_order(data.sheet)
        found = predict_held_out(trained.judged, held_memory, np.arange(n_held), plan, exact=True, mirror=mirror)
        chosen = choose(plan, learn, found, held_memory, mirror)
    with watch.measuring("seams"):
        seams = teach_seams(plan, data, chosen, held_memory, find_seam_model(init), run_folder, stop.check)
    everything = data.subset(data.rows_of("train", "val"))
    card = _card(plan, data, trained, name or folder.name, licence, command, taken, chosen, seams, init)

    def put(where: Path, net: LandmarkNet, source: Dataset) -> dict[str, float]:
        return write_pack(
            where,
            sheet=data.sheet,
            crop_model=crop_model(net, chosen, source),
            shape_model=shape_model(plan, chosen, source),
            places=face_places(learn.truth.landmarks),
            recipe_yaml=plan.to_yaml(),
            samples=_real_samples(held_memory, plan),
            card=card if net is trained.net else _not_yet(card),
            seam=seams.path,
            fill=find_fill_model(init),
            others=find_others(init),
        )

    with watch.measuring("export"):
        judged = folder if trained.net is trained.judged else run_folder / JUDGED
        parity = put(judged, trained.judged, learn)
        if judged != folder:
            parity = put(folder, trained.net, everything)
    with watch.measuring("evaluation"):
        metrics = _judge(judged, folder, data, run_folder, card, parity, stop.check)
    images = float(np.mean([row.images_per_s for row in trained.rows])) if trained.rows else 0.0
    report = TrainReport(folder, metrics, parity, watch.seconds, trained.steps, images, trained.profile)
    bound = None if trained.profile is None else trained.profile.content()
    facts = {"metrics": metrics, "seconds": watch.seconds, "profile": bound}
    write_json(run_folder / "report.json", {**facts, "parity": parity})
    sink(Event("finished", {"stage": "train", "pack": str(folder), **facts}))
    return report


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a training starts from: the recipe as it fits the data, all samples and those to learn from,
    the network with what it took over, and what the loop wants."""

    recipe: Recipe
    data: Dataset
    learn: Dataset
    net: LandmarkNet
    taken: Taken | None
    task: Task


def prepare(
    datasets: Sequence[str | Path],
    recipe: Recipe,
    init: str | Path | None,
    check: Callable[[], None] = lambda: None,
) -> Prepared:
    """Read data sets, hold samples out, decode pictures once and start the network; arguments as `train` has them.

    Raises: TrainingError, PackError; whatever `check`, which is called once per picture, raises to stop.
    """
    whole = join([read_dataset(source) for source in datasets])
    dataset_checks.check(whole)
    split = split_held_out(whole)
    dataset_checks.check_shapes(split.subset(split.rows_of("train")), fewest=1 if recipe.shape_copies else 2)
    data = with_seam_widths(split)
    learn, held = data.subset(data.rows_of("train")), data.subset(data.rows_of("val"))
    recipe = replace(recipe, crop_margin=fitting_margin(recipe, learn))
    side = recipe.input_size * LOAD_MARGIN
    memory, held_memory = (
        load_pictures(part, side_px=side, margin=recipe.crop_margin, check=check) for part in (learn, held)
    )
    net = build_net(recipe, len(data.sheet.landmarks))
    taken = _start(net, init, data.sheet, face_places(learn.truth.landmarks))
    mirror, splines = mirror_permutation(data.sheet), Splines.of(data.sheet, memory.truth)
    relief = choose_relief(learn.truth.landmarks, held.truth.landmarks, mirror) if recipe.turned else None
    task = Task(memory, held_memory, _weights(data.sheet), mirror, splines, _faces_px(held), relief)
    return Prepared(recipe, data, learn, net, taken, task)


def _faces_px(data: Dataset) -> npt.NDArray[np.float64]:
    """The longest side of each face in pixels of its plate."""
    scale = np.array([sample.pixel_scale for sample in data.samples], np.float64)
    return face_side(data.truth.landmarks) / np.maximum(scale, 1e-9)


def split_held_out(data: Dataset) -> Dataset:
    """Make sure that there is something to train on and something held out.

    Where no sample is marked `val`, the last part of every shot is held out: neighbouring frames are so alike that
    frames drawn at random would flatter the pack. `test` samples are left alone.
    """
    if not len(data.rows_of("train")):
        raise TrainingError(f"data set '{data.name}': no sample has split 'train'; there is nothing to learn from")
    if len(data.rows_of("val")):
        return data
    shots: dict[tuple[str, str], list[int]] = {}
    for row in data.rows_of("train"):
        sample = data.samples[row]
        shots.setdefault((sample.character, sample.shot), []).append(int(row))
    late = {row for rows in shots.values() for row in _last(data, rows)}
    if not late:
        late = {dataset_checks.spare_row(data, data.rows_of("train").tolist())}
    if len(late) == len(data.rows_of("train")):
        raise TrainingError(f"data set '{data.name}': one training sample; wanted at least 2, one to be held out")
    samples = tuple(replace(s, split="val") if row in late else s for row, s in enumerate(data.samples))
    return replace(data, samples=samples)


def _last(data: Dataset, rows: list[int]) -> list[int]:
    ordered = sorted(rows, key=lambda row: data.samples[row].frame)
    count = int(len(rows) * HELD_BACK)
    return ordered[-count:] if count else []


def fitting_margin(recipe: Recipe, data: Dataset) -> float:
    """The crop's side over the landmarks' longest side: less than usual where landmarks go round all that is keyed.

    Landmarks from brow to chin leave a forehead out, those on an outline round the face do not; the crop holds the same
    in both cases, and what is to be seen in it has the same size.
    """
    marks, points = data.truth.landmarks, data.truth.points[..., :2]
    if not points.shape[1]:
        return recipe.crop_margin
    whole = face_side(np.concatenate([marks, points], axis=1)) / face_side(marks)
    return float(np.clip(recipe.shape_margin * np.median(whole), 1.0, recipe.crop_margin).round(3))


def _check_place(folder: Path) -> None:
    if folder.exists() and not (folder / CARD).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrainingError(
            f"{folder}: exists and is not a model pack; give --out a new folder or an old pack to replace"
        )


def _start(net: LandmarkNet, init: str | Path | None, sheet: Sheet, places: npt.NDArray[np.float32]) -> Taken | None:
    weights = find_weights(init)
    return None if weights is None else take_over(net, weights, sheet.landmark_names, places)


def _said(taken: Taken | None) -> str:
    if taken is None:
        return "nothing"
    said = f"{taken.n_fitted} tensors, {taken.by_name} landmarks by name, {taken.by_place} by place"
    return said + (f", {len(taken.left_out)} tensors start anew" if taken.left_out else "")


def _weights(sheet: Sheet) -> npt.NDArray[np.float32]:
    weights = np.array([landmark.weight for landmark in sheet.landmarks], np.float32)
    return weights / max(float(weights.mean()), 1e-6)


def _progress(recipe: Recipe, row: Row) -> Event:
    by_step = row.step / recipe.steps if recipe.steps else 0.0
    by_clock = row.minutes / recipe.minutes if recipe.minutes else 0.0
    facts = {name: round(value, 4) if isinstance(value, float) else value for name, value in row._asdict().items()}
    return Event("progress", {"stage": "train", "share": round(min(1.0, max(by_step, by_clock)), 4), **facts})


def _real_samples(memory: Memory, recipe: Recipe) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    rows = np.linspace(0, len(memory) - 1, min(_CHECKED_SAMPLES, len(memory))).round().astype(int).tolist()
    batch = straight_batch(memory, rows, recipe.input_size, recipe.crop_margin)
    faces = np.where(np.isfinite(batch.landmarks), batch.landmarks, np.nanmean(batch.landmarks, axis=1, keepdims=True))
    return as_crops(batch.crops), faces.astype(np.float32)


def _card(
    recipe: Recipe,
    data: Dataset,
    trained: Trained,
    name: str,
    licence: str | None,
    command: str,
    taken: Taken | None,
    chosen: Chosen,
    seams: Seams,
    init: str | Path | None,
) -> dict[str, Any]:
    return {
        "name": name,
        "created": datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
        "input_size": recipe.input_size,
        "crop_margin": recipe.crop_margin,
        "colour": dict(DISPLAY),
        "face_width": FACE_WIDTH,
        "licence": licence or data.licence,
        STILL: list(seams.still),
        READS_MIRRORED: chosen.mirror is not None,
        "training": {
            "command": command,
            "recipe": recipe.name,
            "data": data.name,
            "data_licence": data.licence,
            "train_samples": len(data.rows_of("train")),
            "held_out_samples": len(data.rows_of("val")),
            **card_frames(data, init),
            "characters": len({sample.character for sample in data.samples}),
            "init": _said(taken),
            **chosen.facts(data.sheet),
            **({"seam": seams.facts} if seams.facts else {}),
            AT_LAST: trained.net is not trained.judged,
            "steps": trained.steps,
            "minutes": round(trained.minutes, 2),
            "images_per_s": round(float(np.mean([row.images_per_s for row in trained.rows])), 1)
            if trained.rows
            else 0.0,
        },
    }


def _not_yet(card: dict[str, Any]) -> dict[str, Any]:
    """The card of a pack before it learns from held-out samples as well."""
    return {**card, "training": {**card["training"], AT_LAST: False}}


def _judge(
    judged: Path,
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
    metrics = evaluate(judged, data, splits=splits, contact=run_folder / "worst.jpg", check=check)
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
