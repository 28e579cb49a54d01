"""From data sets to a model pack in one call: read, initialise, train, select, export, evaluate.

    rotopaint train DATASET... --out PACK [--recipe FILE.yaml] [--set key=value]... [--init PACK] [--resume]

Checkpoint, log and recipe of a run lie in `PACK.run` next to the pack; `--resume` continues from there.
"""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.inference.pack import HEAD, LANDMARKS, SHAPES, SHEET, write_card
from rotopaint_ai.inference.pack_folder import is_replaceable, replacing_folder
from rotopaint_ai.jobs import Cancel, Event, warning
from rotopaint_ai.pipeline.face_tracker import STILL
from rotopaint_ai.pipeline.known_head import KnownHead
from rotopaint_ai.plates.coded_pictures import write_picture
from rotopaint_ai.plates.colour import DISPLAY
from rotopaint_ai.sheet import Sheet, dump_sheet, mirrored_order
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.dataset import Array, Dataset
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.evaluation.contact_sheets import worst_cases
from rotopaint_ai.training.evaluation.evaluate import FACE_WIDTH, measure_pack
from rotopaint_ai.training.evaluation.gate import AT_LAST, EVALUATED, card_frames
from rotopaint_ai.training.models.backbone import face_places, find_shared_models, save_weights
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config
from rotopaint_ai.training.models.landmarks.net import CropModel, LandmarkNet
from rotopaint_ai.training.models.landmarks.task import predict_held_out
from rotopaint_ai.training.models.whole_faces import with_whole_faces
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.prepare import Tail, TrainInputs, prepare
from rotopaint_ai.training.pack.select_models import (
    SeamSelection,
    SelectedModels,
    build_crop_model,
    build_shape_model,
    find_known_head,
    find_seam_files,
    has_seams_to_tune,
    select_models,
    tune_seams,
)
from rotopaint_ai.training.trainer.cores import choose_threads
from rotopaint_ai.training.trainer.log import Budget, Profile
from rotopaint_ai.training.trainer.onnx_export import Traces, export_checked
from rotopaint_ai.training.trainer.trainer import Trainer, TrainResult

_CHECKED_SAMPLES = 16
_MOST_MATTES = 60  # most evaluated samples whose mattes are compared


@dataclass(frozen=True, slots=True)
class TrainReport:
    """The result of a training: the pack, its metrics on validation samples, and the duration of each part in
    seconds."""

    pack: Path
    metrics: dict[str, Any]
    parity: dict[str, float]
    seconds: dict[str, float]
    steps: int
    images_per_s: float
    profile: Profile | None = None


def train_pack(options: TrainOptions) -> TrainReport:
    """Train both models of a pack and write it. Of several ranks, only the first does more than training.

    Raises: UsageError, TrainingError, PackError; CancelledError on request, after saving a checkpoint.
    """
    folder, stop, init = options.out, options.cancel or Cancel(), options.init
    group, sink = options.group, options.sink
    seconds: dict[str, float] = {}
    config = load_pack_config(options.recipe, options.overrides)
    budget = Budget(config.limit_s, began=options.began)
    check_pack_place(folder)
    with _measuring(seconds, "loading"):
        ready = prepare(options.sources, config, init, stop.check)
    run_folder = folder.with_name(folder.name + ".run")
    run_folder.mkdir(parents=True, exist_ok=True)
    write_text(run_folder / "recipe.yaml", ready.config.to_yaml())
    if note := choose_threads(ready.config, ready.task):
        sink(warning(note))
    counts = {"samples": len(ready.train_data), "held_out": len(ready.task.data.held_out)}
    sink(Event("started", {"stage": "train", **counts, "init": _describe_init(ready)}))
    tail = Tail(ready, budget, sink, seams=has_seams_to_tune(ready.config, ready.data, find_seam_files(init)))
    with _measuring(seconds, "training"):
        trained = Trainer(ready.config, ready.task, run_folder, group, budget).fit(
            resume=options.resume, sink=sink, check=stop.check
        )
    group.leave()
    if not group.is_first:
        return TrainReport(folder, {}, {}, seconds, trained.steps, 0.0)
    builder = _PackBuilder(ready, trained, run_folder, init, tail, seconds, stop.check)
    chosen, seams = builder.choose()
    card = _card(ready, trained, options, chosen, seams)
    parity, metrics = builder.write(folder, chosen, seams, card)
    report = TrainReport(folder, metrics, parity, seconds, trained.steps, trained.images_per_s, trained.profile)
    bound = None if trained.profile is None else trained.profile.content()
    facts = {"metrics": metrics, "seconds": seconds, "profile": bound}
    write_json(run_folder / "report.json", {**facts, "parity": parity})
    sink(Event("progress", {"stage": "train", "share": 1.0}))
    sink(Event("finished", {"stage": "train", "pack": str(folder), **facts}))
    return report


@dataclass(frozen=True, slots=True)
class _PackBuilder:
    """Builds a pack from trained networks."""

    ready: TrainInputs
    trained: TrainResult[LandmarkNet]
    run_folder: Path
    init: str | Path | None
    tail: Tail
    seconds: dict[str, float]
    check: Callable[[], None]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Context for one part: measures its time and checks for cancellation."""
        with _measuring(self.seconds, name), self.tail.part(name):
            self.check()
            yield

    def choose(self) -> tuple[SelectedModels, SeamSelection]:
        """Select prior, guards, calibration and the seam network on validation samples."""
        config, held = self.ready.config, self.ready.task.data.held_out
        with self.part("fitting"):
            mirror = mirrored_order(self.ready.data.sheet) if config.mirrored else None
            rows = np.arange(len(held))
            found = predict_held_out(self.trained.validated, held, rows, config, exact=True, mirror=mirror)
            chosen = select_models(config, self.ready.train_data, self.ready.whole_faces, found, held, mirror)
        with self.part("seams"):
            start, seconds = find_seam_files(self.init), self.tail.time_for_seams()
            data = self.ready.data, self.ready.whole_faces
            seams = tune_seams(config, *data, chosen, held, start, self.run_folder, seconds, self.check)
        return chosen, seams

    def write(
        self, folder: Path, chosen: SelectedModels, seams: SeamSelection, card: dict[str, Any]
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Write the pack with its metrics, measured on validation samples that it was not trained on.

        If training also used the validation samples in the end, the metrics are those of the pack before that, which is
        kept in the run's folder.
        """
        trained, data = self.trained, self.ready.data
        train_sets = self.ready.train_data, self.ready.whole_faces
        if trained.net is trained.validated:
            with replacing_folder(folder) as made:
                with self.part("export"):
                    parity = self._export(made, trained.net, *train_sets, chosen, seams, card)
                return parity, self._measure_pack(made, {**card, "parity": parity})
        before = {**card, "training": {**card["training"], AT_LAST: False}}
        with replacing_folder(folder) as made, replacing_folder(self.run_folder / EVALUATED) as validated_folder:
            with self.part("export"):
                traces: Traces = {}
                parity = self._export(validated_folder, trained.validated, *train_sets, chosen, seams, before, traces)
                everything = data.subset(data.rows_of("train", "val"))
                whole_faces = with_whole_faces(everything)
                final = self._export(made, trained.net, everything, whole_faces, chosen, seams, card, traces)
            metrics = self._measure_pack(validated_folder, {**before, "parity": parity})
            write_card(made, {**card, "parity": final, "metrics": _of_card(metrics)})
        return final, metrics

    def _export(
        self,
        folder: Path,
        net: LandmarkNet,
        source: Dataset,
        whole_faces: Dataset,
        chosen: SelectedModels,
        seams: SeamSelection,
        card: dict[str, Any],
        traces: Traces | None = None,
    ) -> dict[str, float]:
        config = self.ready.config
        return write_pack(
            folder,
            sheet=self.ready.data.sheet,
            crop_model=build_crop_model(net, chosen, source),
            shape_model=build_shape_model(config, chosen, whole_faces),
            places=face_places(self.ready.train_data.truth.landmarks),
            recipe_yaml=config.to_yaml(),
            samples=_real_samples(self.ready.task.data.held_out, config),
            card=card,
            head=find_known_head(source, whole_faces),
            others=(*seams.files, *find_shared_models(self.init)),
            traces=traces,
        )

    def _measure_pack(self, pack: Path, card: dict[str, Any]) -> dict[str, Any]:
        """Evaluate a pack on samples that it was not trained on, and write the metrics to its card."""
        data = self.ready.data
        splits = cast(Any, ("test",) if len(data.rows_of("test")) else ("val",))
        with self.part("evaluation"):
            found = measure_pack(pack, data, splits=splits, progress=lambda *_: self.check(), most_mattes=_MOST_MATTES)
            write_picture(self.run_folder / "worst.jpg", worst_cases(found.dataset, found.predicted))
        write_card(pack, {**card, "metrics": _of_card(found.result)})
        return found.result


def _of_card(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that a card keeps; those of each shot are in the training's `report.json`."""
    return {name: value for name, value in metrics.items() if name != "per_shot"}


def _describe_init(ready: TrainInputs) -> str:
    return str(ready.transfer or "nothing")


def check_pack_place(folder: Path) -> None:
    """Raises TrainingError if a pack would replace something else."""
    if not is_replaceable(folder):
        raise TrainingError(
            f"{folder}: exists and is not a model pack; give --out a new folder or an old pack to replace"
        )


def _real_samples(memory: Memory, config: PackConfig) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    rows = evenly_spread(range(len(memory)), _CHECKED_SAMPLES)
    batch = straight_batch(memory, rows, config.input_size, config.crop_margin)
    faces = np.where(np.isfinite(batch.landmarks), batch.landmarks, np.nanmean(batch.landmarks, axis=1, keepdims=True))
    return as_crops(batch.crops), faces.astype(np.float32)


def _card(
    ready: TrainInputs,
    trained: TrainResult[LandmarkNet],
    options: TrainOptions,
    chosen: SelectedModels,
    seams: SeamSelection,
) -> dict[str, Any]:
    config, data = ready.config, ready.data
    return {
        "name": options.name or options.out.name,
        "created": datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
        "input_size": config.input_size,
        "crop_margin": config.crop_margin,
        "colour": dict(DISPLAY),
        "face_width": FACE_WIDTH,
        "licence": options.licence or data.licence,
        STILL: list(seams.still),
        "reads_mirrored": chosen.mirror is not None,
        "training": {
            "command": options.command,
            "recipe": config.name,
            "data": data.name,
            "data_licence": data.licence,
            "train_samples": len(data.rows_of("train")),
            "held_out_samples": len(data.rows_of("val")),
            **card_frames(data, options.init),
            "characters": len({sample.character for sample in data.samples}),
            "init": _describe_init(ready),
            **chosen.facts(data.sheet),
            **({"seam": seams.facts} if seams.facts else {}),
            AT_LAST: trained.net is not trained.validated,
            "steps": trained.steps,
            "minutes": round(trained.minutes, 2),
            "images_per_s": round(trained.images_per_s, 1),
        },
    }


@contextmanager
def _measuring(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Record the duration of a stage."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = round(time.perf_counter() - start, 2)


PARITY_PX = 0.01
_LANDMARK_OUTPUTS = ("landmarks", "expected_error", "visible")
_SHAPE_OUTPUTS = ("points", "width")


def write_pack(
    folder: Path,
    *,
    sheet: Sheet,
    crop_model: CropModel,
    shape_model: nn.Module | None,
    places: Array,
    recipe_yaml: str,
    samples: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
    card: Mapping[str, Any],
    head: KnownHead | None = None,
    others: Sequence[Path] = (),
    traces: Traces | None = None,
) -> dict[str, float]:
    """Write a pack's files into an empty folder, and check the graphs.

    `samples`: real crops [N, S, S, 3] and landmarks [N, L, 2] on which the exported graphs are compared with torch.
    `others`: further models to copy, with their file names. `traces`: see `export_checked`.
    Returns the largest differences in pixels. Raises: TrainingError if they exceed `PARITY_PX`.
    """
    write_text(folder / SHEET, dump_sheet(sheet))
    write_text(folder / "recipe.yaml", recipe_yaml)
    names = ("crop", _LANDMARK_OUTPUTS)
    limits = {"landmarks": PARITY_PX}
    parity = {
        "landmarks_px": export_checked(
            crop_model, folder / LANDMARKS, names, samples[0], limits=limits, unit=" px", traces=traces
        )
    }
    shapes = shape_model if shape_model is not None else EmptyShapes()
    parity["shapes_px"] = export_checked(
        shapes,
        folder / SHAPES,
        ("landmarks", _SHAPE_OUTPUTS),
        samples[1],
        limits={"points": PARITY_PX},
        unit=" px",
        traces=traces,
    )
    for path in others:
        shutil.copyfile(path, folder / path.name)
    if head is not None:
        head.write(folder / HEAD)
    save_weights(folder, crop_model.net, sheet.landmark_names, places)
    write_card(folder, {**card, "parity": parity})
    return parity


class EmptyShapes(nn.Module):
    """The shape model of a sheet without shapes: no points and no widths, for any number of landmarks."""

    def forward(self, landmarks: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2] -> [N, 0, 6], [N, 0]."""
        return landmarks[:, :0].repeat(1, 1, 3), landmarks[:, :0, 0]


def as_crops(crops: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """8-bit crops as inputs of the exported model."""
    return cast(npt.NDArray[np.float32], crops.astype(np.float32) / 255)
