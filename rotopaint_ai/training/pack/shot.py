"""Fine-tunes a pack on the corrections of a shot: `rotopaint train PROJECT --recipe shot --out PACK`.

The landmark network starts from a pack's weights. It trains on the few corrected frames and, to keep what was right, on
the models' own predictions of the others (`lesson.py`). Pose augmentation uses the shot's own rigid structure. The
shape model is fitted to the solved shot. Then the new pack's predictions update the project, as one step that can be
undone.
The result is a complete pack for `run --model` on the character's next shots and for `train --init`.
"""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.frames import summarise
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.pack import HEAD, Pack, find_pack, load_pack
from rotopaint_ai.inference.pack_folder import replacing_folder
from rotopaint_ai.jobs import Cancel, Event, Sink, notice
from rotopaint_ai.pipeline.corrected_project import (
    CorrectedProject,
    copy_pack_with_head,
    has_trained_head,
    read_corrected_project,
)
from rotopaint_ai.pipeline.known_head import KnownHead
from rotopaint_ai.pipeline.teach import TeachResult, head_of_shot, read_shot, teach
from rotopaint_ai.project import Project, run_record
from rotopaint_ai.shapes.head_structure import fit_structure
from rotopaint_ai.shapes.landmarks_follow import with_landmarks
from rotopaint_ai.shapes.manual_keys import with_model_keys
from rotopaint_ai.shapes.refit import corrected_shapes
from rotopaint_ai.sheet import mirror_permutation, mirrored_order
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.models.backbone import (
    face_places,
    find_part,
    find_shared_models,
    find_weights,
    load_pretrained,
)
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config
from rotopaint_ai.training.models.landmarks.net import CropModel, LandmarkNet
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net, predict_held_out
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS, ShapeTraining, add_warped_copies
from rotopaint_ai.training.pack.lesson import DrawnShot, ShotLesson, make_lesson
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.prepare import sheet_weights
from rotopaint_ai.training.pack.select_models import calibrate, find_seam_files
from rotopaint_ai.training.pack.train import as_crops, check_pack_place, write_pack
from rotopaint_ai.training.trainer.cores import choose_threads
from rotopaint_ai.training.trainer.log import Budget
from rotopaint_ai.training.trainer.trainer import Trainer

SHARE = 0.5  # share of corrected frames among all samples
FEWEST = 3  # fewest corrected poses: fewer do not cover a turning face; Teach accepts one
_TAIL_S = 45.0  # on one core, for the export and the update of the project
_NOT_KEPT = ("files", "metrics", "parity", "default")  # card entries that are not copied from the initial pack
_CHECKED = 8  # samples on which the exported graphs are compared


@dataclass(frozen=True, slots=True)
class ShotReport:
    """Corrected frames, steps, and moved keys in the project (None: another process has it open)."""

    pack: Path
    frames: tuple[int, ...]
    steps: int
    n_moved: int | None
    seconds: Mapping[str, float]


class ShotTask(LandmarkTask):
    """A landmark training without validation, because corrected frames are few; the last network is used."""

    scores = ()

    def validate(self, net: LandmarkNet) -> tuple[float, ...]:
        """Nothing to validate."""
        return ()


def train_shot(options: TrainOptions) -> ShotReport:
    """Fine-tune a pack on the corrected frames of one project, and update the project with it.

    Raises: UsageError if fewer than FEWEST holds are corrected or the pack's shapes differ; ProjectError, PackError,
    PlateError, TrainingError; CancelledError.
    """
    check = (options.cancel or Cancel()).check
    check_pack_place(options.out)
    config = load_pack_config(options.recipe, options.overrides)
    budget = Budget(config.limit_s, began=options.began)
    shot = read_corrected_project(Path(options.sources[0]))
    pack = load_pack(find_pack(options.init))
    clock, start = {}, time.perf_counter()
    with closing(open_models(pack, device="cpu", threads=1)) as models:
        lesson = read_lesson(shot, models, config)
    clock["reading"] = round(time.perf_counter() - start, 1)
    options.sink(
        Event("started", {"stage": "train", "samples": len(lesson.is_corrected), "held_out": 0, "init": pack.name})
    )
    folder = options.out.with_name(options.out.name + ".run")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "recipe.yaml", config.to_yaml())
    budget.reserve(_TAIL_S if config.minutes else 0.0)
    start = time.perf_counter()
    tuned = fine_tune(lesson, pack, config, folder, budget, options.init, options.sink, check)
    clock["training"] = round(time.perf_counter() - start, 1)
    start = time.perf_counter()
    _keep_previous_pack(options.out, folder / "before")
    write_shot_pack(options, tuned, lesson, pack, config, shot)
    clock["export"] = round(time.perf_counter() - start, 1)
    start = time.perf_counter()
    found, head = _read_again(options.out, shot, options.sink)
    if head is not None:
        made = load_pack(options.out)
        copy_pack_with_head(made, head, made.folder, project=Path(options.sources[0]), frames=shot.frames)
    n_moved = _update_project(options, found)
    clock["reading again"] = round(time.perf_counter() - start, 1)
    report = ShotReport(options.out, tuple(sorted(shot.frames)), tuned.steps, n_moved, clock)
    write_json(folder / "report.json", {"frames": list(report.frames), "steps": tuned.steps, "seconds": clock})
    options.sink(Event("finished", {"stage": "train", "pack": str(options.out), "moved": n_moved}))
    return report


def read_lesson(shot: CorrectedProject, models: Models, config: PackConfig) -> ShotLesson:
    """The training samples of a shot, with a pack's predictions. Raises UsageError if too little is corrected."""
    sheet = models.pack.sheet
    names = {base.name for base, _, _ in corrected_shapes(shot.predicted, shot.document)}
    known = {spec.name for spec in sheet.shapes}
    if not names:
        raise UsageError(
            f"no shape of the project was corrected; correct {FEWEST} poses first, in the panel or in Nuke"
        )
    if not names & known:
        wanted = ", ".join(sorted(known)[:3])
        raise UsageError(
            f"no corrected shape is one of pack '{models.pack.name}' ({wanted}, ...); give --init its pack"
        )
    reading = read_shot(shot.predicted, shot.plate, models)
    holds = {reading.hold_of[frame] for frame in shot.frames if frame in reading.hold_of}
    if len(holds) < FEWEST:
        count = "1 pose is" if len(holds) == 1 else f"{len(holds)} poses are"
        raise UsageError(
            f"{count} corrected (frames {summarise(sorted(shot.frames))}); wanted {FEWEST} or more: correct another, "
            "or press Teach, which needs only one"
        )
    solved = teach(reading, shot.predicted, shot.document, shot.errors).keys
    drawn = DrawnShot(shot.document, solved, names & known, shot.frames)
    return make_lesson(reading, shot.plate, drawn, input_size=models.pack.input_size, margin=models.pack.crop_margin)


def _read_again(folder: Path, shot: CorrectedProject, sink: Sink) -> tuple[TeachResult, KnownHead | None]:
    """The shot as the new pack sees it, and its head: none where the pack has one that was trained, of more poses, or
    where the shot shows too little of it, which a notice then says."""
    pack = load_pack(folder)
    with closing(open_models(pack, device="cpu", threads=1)) as models:
        reading = read_shot(shot.predicted, shot.plate, models)
        found = teach(reading, shot.predicted, shot.document, shot.errors)
        if has_trained_head(pack):
            return found, None
        try:
            return found, head_of_shot(reading, shot.predicted, shot.document, shot.errors)
        except UsageError as error:
            sink(notice(f"no head is kept for the character's next shots: {error}", is_warning=False))
            return found, None


def _update_project(options: TrainOptions, found: TeachResult) -> int | None:
    """Update the project with the new pack's predictions, as a step that can be undone. None if another process has it.

    The predictions replace the earlier ones, so that later corrections propagate from them.
    """
    project = Project.open(Path(options.sources[0]))
    try:
        if project.is_read_only:
            return None
        state, note = project.load().state, project.note("run")
        assert state.document is not None
        assert state.predicted is not None
        document = with_landmarks(state.document, with_model_keys(state.document, found.keys))
        project.append(
            "teach", state, replace(state, document=document, predicted=with_model_keys(state.predicted, found.keys))
        )
        if note is not None:
            record = run_record.from_json(note).with_errors(found.errors)
            project.set_note("run", run_record.to_json(record))
        doubtful = {name: summarise(frames) for name, frames in found.doubtful.items() if frames}
        project.set_note("taught", {"moved": found.n_moved, "doubtful": doubtful, "pack": str(options.out.absolute())})
        return found.n_moved
    finally:
        project.close()


@dataclass(frozen=True, slots=True, eq=False)
class FineTunedModels:
    """Models fine-tuned on a shot."""

    crop_model: CropModel
    shape_model: nn.Module
    steps: int
    minutes: float


def fine_tune(
    lesson: ShotLesson,
    pack: Pack,
    config: PackConfig,
    folder: Path,
    budget: Budget,
    init: str | Path | None,
    sink: Sink,
    check: Callable[[], None],
) -> FineTunedModels:
    """Continue training a pack's network on a lesson. Raises TrainingError."""
    config = replace(config, input_size=pack.input_size, crop_margin=pack.crop_margin)
    sheet, marks = lesson.sheet, lesson.solved.landmarks
    net = _start_net(config, pack, lesson, init)
    order = mirror_permutation(sheet)
    structure = fit_structure(marks, None) if config.pose else None
    memory = lesson.training(SHARE)
    task = ShotTask(
        config, net, LandmarkData(memory, _take_first(memory), sheet_weights(sheet), order, None, structure)
    )
    choose_threads(config, task)
    trained = Trainer(config, task, folder, budget=budget).fit(sink=sink, check=check)
    reads = mirrored_order(sheet) if pack.card.get("reads_mirrored") else None
    crop_model = CropModel(trained.net, _calibration(trained.net, lesson, config, reads), mirror=reads)
    return FineTunedModels(crop_model, _shape_model(lesson, config), trained.steps, trained.minutes)


def _start_net(config: PackConfig, pack: Pack, lesson: ShotLesson, init: str | Path | None) -> LandmarkNet:
    weights = find_weights(init)
    if weights is None:
        raise UsageError(
            f"--init {init}: a shot is trained from a pack's weights; leave the option out, or name a pack"
        )
    net = build_net(config, len(lesson.sheet.landmarks))
    report = load_pretrained(net, weights, lesson.sheet.landmark_names, face_places(lesson.solved.landmarks))
    if report.left_out:
        raise TrainingError(
            f"{pack.name}: its network differs from the recipe's ({report.left_out[0]} does not fit); give the fields "
            "of its recipe.yaml with --set"
        )
    return net


def _take_first(memory: Memory) -> Memory:
    row = np.arange(1)
    return Memory(memory.pictures[:1], memory.truth.rows(row), memory.shrink[row])


def _calibration(
    net: LandmarkNet, lesson: ShotLesson, config: PackConfig, reads: tuple[int, ...] | None
) -> tuple[float, float]:
    """Calibration of expected errors against the solved shot, on frames without corrections."""
    rows = np.flatnonzero(~lesson.is_corrected)
    memory = replace(lesson.known, truth=lesson.solved)
    held = predict_held_out(
        net, memory, rows if len(rows) else np.arange(len(memory)), config, exact=True, mirror=reads
    )
    return calibrate(held.distance.ravel(), held.log_scale.ravel())


def _shape_model(lesson: ShotLesson, config: PackConfig) -> nn.Module:
    noise = np.full(len(lesson.sheet.landmarks), config.shape_noise or 0.0)
    rng = np.random.default_rng(config.seed)
    truth = add_warped_copies(lesson.solved, copies=config.shape_copies, rng=rng)
    return SHAPE_MODELS[config.shape_model](ShapeTraining(lesson.sheet, truth, noise, seed=config.seed)).eval()


def _keep_previous_pack(out: Path, kept: Path) -> None:
    """Copy the pack that is about to be replaced."""
    if out.is_dir():
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(out, kept)


def write_shot_pack(
    options: TrainOptions,
    tuned: FineTunedModels,
    lesson: ShotLesson,
    pack: Pack,
    config: PackConfig,
    shot: CorrectedProject,
) -> None:
    """Write the pack, replacing an older one."""
    batch = straight_batch(lesson.known, range(min(_CHECKED, len(lesson.known))), pack.input_size, pack.crop_margin)
    solved = replace(lesson.known, truth=lesson.solved)
    faces = straight_batch(solved, range(len(batch.crops)), pack.input_size, pack.crop_margin).landmarks
    facts: dict[str, Any] = {
        "command": options.command,
        "recipe": config.name,
        "project": Path(options.sources[0]).name,
        "frames": summarise(sorted(shot.frames)),
        "steps": tuned.steps,
        "minutes": round(tuned.minutes, 2),
        "init": pack.name,
        "before": pack.card.get("training", {}),
    }
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
    kept = {name: value for name, value in pack.card.items() if name not in _NOT_KEPT}
    card = {**kept, "name": options.out.name, "created": now, "training": facts}
    with replacing_folder(options.out) as made:
        write_pack(
            made,
            sheet=lesson.sheet,
            crop_model=tuned.crop_model,
            shape_model=tuned.shape_model,
            places=face_places(lesson.solved.landmarks),
            recipe_yaml=config.to_yaml(),
            samples=(as_crops(batch.crops), faces.astype(np.float32)),
            card=card,
            others=(
                *filter(None, (*find_seam_files(options.init), find_part(options.init, HEAD))),
                *find_shared_models(options.init),
            ),
        )
