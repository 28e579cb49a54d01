"""The Python interface: the commands of the command line as functions that return values.

    import rotopaint_ai

    shot = rotopaint_ai.run("plate.####.exr", crop="342,142,280,297", out="shot010")
    shot.shapes                      # the roto document
    shot.export("fusion")            # one more exchange file, read back and compared

Importing this module loads only the standard library; each function loads what it needs. Paths are texts or `Path`s,
frames are the integers on disk, points are in plate space. Errors are those of `rotopaint_ai.errors`, with the text of
the command line. No function starts other processes; use the command line for training on several ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rotopaint_ai.jobs import Device, Event
    from rotopaint_ai.shapes.roto import RotoDocument
    from rotopaint_ai.training.evaluation.gate import GateFigure
    from rotopaint_ai.training.mining.mine import MineReport
    from rotopaint_ai.training.pack.train import TrainReport

    Matte = npt.NDArray[np.float32]

PathLike = str | Path
Watcher = Callable[["Event"], None]
SHAPES = "shapes.roto.json"


@dataclass(frozen=True, slots=True)
class Shot:
    """A finished run and its output folder. `Shot(Path("shot010"))` opens an earlier run.

    `failed`: frames that failed, with the reason; `missing`: frames not on disk; `lost`: frames without a face.
    """

    out: Path
    failed: Mapping[int, str]
    missing: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()

    @classmethod
    def open(cls, out: PathLike) -> Shot:
        """Open the shot in a folder that `run` has written. Raises: DocumentError where there is none."""
        import json

        from rotopaint_ai.errors import DocumentError

        path = Path(out) / "run.json"
        try:
            frames = json.loads(path.read_text(encoding="utf-8"))["frames"]
            failed = {int(frame): str(why) for frame, why in frames["failed"].items()}
            return cls(Path(out), failed, tuple(frames["missing"]), tuple(frames["lost"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DocumentError(
                f"{path}: not the record of a run; wanted the output folder of a finished 'run'"
            ) from None

    @property
    def shapes(self) -> RotoDocument:
        """The roto document on disk, with one key per frame unless keys were reduced."""
        from rotopaint_ai.exchange import document

        return document.read(self.out / SHAPES)

    @property
    def report(self) -> Path:
        """The path of the report, a page that begins with the worst frames."""
        return self.out / "report" / "index.html"

    def mattes(self, frame: int) -> dict[str, Matte]:
        """Each shape's coverage at a frame, 0 to 1, as float32 arrays (height, width) of the plate.

        Raises: UsageError for a frame outside the shot.
        """
        from rotopaint_ai.errors import UsageError
        from rotopaint_ai.shapes.rasterise import mattes_of

        shapes = self.shapes
        if not shapes.first_frame <= frame <= shapes.last_frame:
            raise UsageError(f"frame {frame}: wanted one of {shapes.first_frame}-{shapes.last_frame}")
        width, height = shapes.width, shapes.height
        drawn = mattes_of(shapes.shapes, frame, width, height)
        return {name: region.paste(width, height) for name, region in drawn.items()}

    def clean(self) -> tuple[Path, ...]:
        """The files of the clean plate, sorted by name; empty after `clean=False`."""
        return tuple(sorted((self.out / "clean").glob("*")))

    def export(self, format: str, path: PathLike | None = None) -> Path:
        """Write the shapes in a format (`nuke`, `fusion`, ...), read the file back and compare; returns its path.

        The default path is `shapes` with the suffix of the format, in the shot's folder. Raises: UsageError for an
        unknown format; DocumentError where the format cannot hold the shapes, or the shapes read back differ.
        """
        from rotopaint_ai.exchange import formats
        from rotopaint_ai.pipeline.export import check_exports, export_names

        check_exports([format])
        target = Path(path) if path is not None else self.out / f"shapes{export_names()[format.lower()].suffixes[0]}"
        shapes = self.shapes
        formats.write(target, shapes)
        formats.proof_of(target, shapes).require(target.name)
        return formats.written_path(target)


def run(
    plates: PathLike,
    *,
    out: PathLike,
    crop: str | Sequence[str] = "auto",
    model: PathLike | None = None,
    frames: str | None = None,
    export: Sequence[str] = ("nuke",),
    clean: bool = True,
    method: str | None = None,
    device: Device = "auto",
    threads: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    project: PathLike | None = None,
    watch: Watcher | None = None,
) -> Shot:
    """Make landmarks, shapes, mattes, clean plate, exchange files and report of one plate, as `rotopaint run` does.

    `crop`: `X,Y,W,H` in plate pixels, `FRAME:X,Y,W,H`, several of them, or `auto`. `watch` is called with each event.
    Frames that fail are listed in the shot's `failed`; the other frames are finished.
    Raises: UsageError, PlateError, PackError, DeviceError, ProjectError; OSError where the disk reports an error.
    """
    from rotopaint_ai import fills
    from rotopaint_ai.jobs import Cancel, RunJob, ignore
    from rotopaint_ai.pipeline.run import run as run_line

    job = RunJob(
        plates=str(plates),
        out=str(out),
        crops=(crop,) if isinstance(crop, str) else tuple(crop),
        model=None if model is None else str(model),
        frames=frames,
        exports=tuple(export),
        clean=clean,
        method=method or fills.DEFAULT,
        device=device,
        threads=threads,
        resume=resume,
        overwrite=overwrite,
        project=None if project is None else str(project),
    )
    outcome = run_line(job, watch or ignore, Cancel())
    return Shot(Path(out), outcome.failed, outcome.missing, outcome.lost)


def mine(
    sources: Sequence[PathLike],
    *,
    out: PathLike,
    plates: str | None = None,
    sheet: PathLike | None = None,
    val: Sequence[str] = (),
    test: Sequence[str] = (),
    exclude: Sequence[str] = (),
    overwrite: bool = False,
) -> MineReport:
    """Make ground truth from finished roto and write it as a data set to `out`, as `rotopaint mine` does.

    `overwrite`: also over a data set that was mined from sources not given now.

    Returns: the sheet, samples per split, residuals and suspicious frames.
    Raises: UsageError, DocumentError, PlateError, PackError, TrainingError.
    """
    from rotopaint_ai.training.mining.mine import mine as mine_sources
    from rotopaint_ai.training.mining.options import Exclusion, MineOptions

    options = MineOptions(
        sources=tuple(map(Path, sources)),
        out=Path(out),
        plates=plates,
        sheet=None if sheet is None else Path(sheet),
        val=tuple(val),
        test=tuple(test),
        exclude=Exclusion.parse(list(exclude)),
        overwrite=overwrite,
    )
    return mine_sources(options)


def train(
    datasets: Sequence[PathLike],
    *,
    out: PathLike,
    recipe: PathLike | None = None,
    settings: Mapping[str, object] | None = None,
    init: PathLike | None = None,
    resume: bool = False,
    watch: Watcher | None = None,
) -> TrainReport:
    """Train a model pack from data sets in this process, as `rotopaint train --strategy single` does.

    `settings` override the recipe, such as `{"minutes": None, "steps": 500}`. `init`: a start pack, `none` to start
    from random weights, None for the shipped pack. Raises: UsageError, TrainingError, PackError.
    """
    from rotopaint_ai.jobs import ignore
    from rotopaint_ai.training.pack.network import TrainOptions
    from rotopaint_ai.training.pack.train import train_pack

    overrides = [f"{key}={'null' if value is None else value}" for key, value in (settings or {}).items()]
    sources = [str(source) for source in datasets]
    return train_pack(TrainOptions(sources, Path(out), recipe, overrides, init, resume, sink=watch or ignore))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of a pack on a data set, as in `rotopaint evaluate --json`, and the gate's where `against` was given."""

    figures: dict[str, Any]
    compared: tuple[GateFigure, ...] = ()

    @property
    def is_worse(self) -> bool:
        """Whether the pack is worse than the other one on any figure of the gate."""
        return any(each.is_worse for each in self.compared)


def evaluate(
    pack: PathLike, dataset: PathLike, *, against: PathLike | None = None, tolerance: float = 0.05
) -> Evaluation:
    """Evaluate a pack on the test samples of a data set, or on its validation samples where it has no test samples.

    `against` is the pack of the gate; `tolerance` is the share by which a distance may grow.
    Raises: PackError, TrainingError, UsageError. Needs no torch.
    """
    from rotopaint_ai.training.data.dataset import read_dataset
    from rotopaint_ai.training.evaluation import gate
    from rotopaint_ai.training.evaluation.evaluate import measure_pack

    data = read_dataset(dataset)
    figures = measure_pack(pack, data).result
    if against is None:
        return Evaluation(figures)
    return Evaluation(figures, tuple(gate.compare_packs(figures, measure_pack(against, data).result, tolerance)))
