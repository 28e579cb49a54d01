"""The training data set on disk: a folder with a sheet, pictures and one line of ground truth per picture.

    dataset.json   {"format": "rotopaint-dataset", "version": 1, "name": ..., "licence": ...}
    sheet.yaml     the character sheet of all samples
    samples.jsonl  one sample per line:
                   {"image": "images/x.jpg", "width", "height", "character", "shot", "frame", "split": train|val|test,
                    "landmarks": {name: [x, y, visible 0|1] | null}, "shapes": {name: {"points": [[x, y, in_dx, in_dy,
                    out_dx, out_dy], ...], "width_px": 4.2}}, "face_box": [x, y, w, h], "pixel_scale": picture px per
                    plate px}
    images/        crops around the face with a margin, JPEG or PNG, 8-bit sRGB; or shards/: the same pictures in tars

Coordinates are pixels of the picture, origin at the outer corner of the top-left pixel.
In memory: N samples, L landmarks, K shapes, P control points of all shapes; unknown values are NaN.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from rotopaint_ai.errors import PackError, TrainingError
from rotopaint_ai.files import file_bytes, write_json, write_text
from rotopaint_ai.plates.coded_pictures import decode
from rotopaint_ai.sheet import Sheet, dump_sheet, parse_sheet
from rotopaint_ai.training.data.shards.read import ShardPictures
from rotopaint_ai.training.data.shards.store import INDEX, ShardStore, open_store
from rotopaint_ai.value_checks import check_json

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
_LONGEST_PX, _FARTHEST_PX = 65_536, 1_000_000  # largest side of a picture, largest absolute coordinate


@dataclass(frozen=True, slots=True)
class ShapeTruth:
    """A shape's control points (P, 6) in picture pixels, and the seam's full width where it is known."""

    points: Sequence[Sequence[float]]
    width_px: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of `samples.jsonl`: a picture and its ground truth. `pixel_scale`: picture pixels per plate pixel."""

    image: str
    width: int
    height: int
    character: str
    shot: str
    frame: int
    split: Split
    landmarks: Mapping[str, tuple[float, float, float]]
    shapes: Mapping[str, ShapeTruth] = field(default_factory=dict)
    face_box: tuple[float, float, float, float] | None = None
    pixel_scale: float = 1.0

    def line(self) -> str:
        """The sample as one line of JSON, coordinates rounded to a thousandth of a pixel."""
        shapes = {name: _shape_content(shape) for name, shape in self.shapes.items()}
        content = {
            **{name: getattr(self, name) for name in ("image", "width", "height", "character", "shot", "frame")},
            "split": self.split,
            "landmarks": {name: [round(v, 3) for v in point] for name, point in self.landmarks.items()},
            "shapes": shapes,
            "face_box": None if self.face_box is None else [round(v, 3) for v in self.face_box],
            "pixel_scale": self.pixel_scale,
        }
        return json.dumps(content, allow_nan=False)


def _shape_content(shape: ShapeTruth) -> dict[str, Any]:
    points = [[round(float(v), 3) for v in point] for point in shape.points]
    return {"points": points} if shape.width_px is None else {"points": points, "width_px": round(shape.width_px, 4)}


_Number = Annotated[float, Meta(ge=-_FARTHEST_PX, le=_FARTHEST_PX)]
_Side = Annotated[int, Meta(ge=1, le=_LONGEST_PX)]
_BoxSide = Annotated[float, Meta(gt=0, le=_FARTHEST_PX)]


class _Kind(Struct):
    """The format field of a `dataset.json` of any version."""

    format: Literal["rotopaint-dataset"]


class _Head(_Kind):
    """The content of `dataset.json`."""

    version: Literal[1]
    name: str | None = None
    licence: str = "not stated"


class _ShapeInLine(Struct):
    points: list[tuple[_Number, _Number, _Number, _Number, _Number, _Number]]
    width_px: _Number | None = None


class _Line(Struct):
    """A line of `samples.jsonl`; null means unknown."""

    image: str
    width: _Side
    height: _Side
    split: Split
    landmarks: dict[str, tuple[_Number, _Number, _Number] | None]
    shapes: dict[str, _ShapeInLine | None] | None = None
    character: str = ""
    shot: str = ""
    frame: int = 0
    face_box: tuple[_Number, _Number, _BoxSide, _BoxSide] | None = None
    pixel_scale: Annotated[float, Meta(ge=0.001, le=1000)] = 1.0

    def sample(self) -> Sample:
        """The sample, without the unknown landmarks and shapes."""
        facts = {name: getattr(self, name) for name in self.__struct_fields__}
        landmarks = {name: point for name, point in self.landmarks.items() if point is not None}
        shapes = {name: ShapeTruth(s.points, s.width_px) for name, s in (self.shapes or {}).items() if s is not None}
        return Sample(**{**facts, "landmarks": landmarks, "shapes": shapes})


def parse_samples(text: str, where: str, sheet: Sheet) -> tuple[Sample, ...]:
    """The samples of a `samples.jsonl`. Raises TrainingError naming `where`, the line and the fault."""
    landmarks, shapes = frozenset(sheet.landmark_names), {shape.name: shape.n_points for shape in sheet.shapes}
    samples = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            samples.append(check_json(line, _Line, error=TrainingError).sample())
            _check_names(samples[-1], landmarks, shapes)
        except TrainingError as error:
            raise TrainingError(f"{where} line {number}: {error}; mend the line or mine the data set again") from error
    if not samples:
        raise TrainingError(f"{where}: no samples; mine the data set again")
    return tuple(samples)


def _check_names(sample: Sample, landmarks: frozenset[str], shapes: Mapping[str, int]) -> None:
    """Raise TrainingError where a sample's landmarks, shapes or point counts differ from the sheet's."""
    if Path(sample.image).is_absolute() or ".." in Path(sample.image).parts:
        raise TrainingError(f"image '{sample.image}' lies outside the data set")
    if odd := sample.landmarks.keys() - landmarks:
        raise TrainingError(f"landmark '{min(odd)}' is not in the sheet")
    if len(sample.landmarks) < 2:
        raise TrainingError(f"{len(sample.landmarks)} landmarks known; wanted at least 2")
    for name, shape in sample.shapes.items():
        if name not in shapes:
            raise TrainingError(f"shape '{name}' is not in the sheet")
        if len(shape.points) != shapes[name]:
            raise TrainingError(f"shape '{name}' has {len(shape.points)} points; the sheet says {shapes[name]}")


FORMAT = "rotopaint-dataset"
VERSION = 1

Array = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Truth:
    """Ground truth of N samples in sheet order; coordinates in pixels of the picture, NaN where unknown."""

    landmarks: Array  # [N, L, 2]
    visible: Array  # [N, L] 1 visible, 0 hidden, NaN unknown landmark
    points: Array  # [N, P, 6]
    width: Array  # [N, K] full width of open shapes

    @classmethod
    def concatenate(cls, parts: Iterable[Truth]) -> Truth:
        """The ground truth of all samples of several parts."""
        columns = zip(*((part.landmarks, part.visible, part.points, part.width) for part in parts))
        return cls(*(np.concatenate(column) for column in columns))

    def rows(self, rows: npt.NDArray[np.intp]) -> Truth:
        """The ground truth of the given samples."""
        return Truth(self.landmarks[rows], self.visible[rows], self.points[rows], self.width[rows])

    def scaled(self, factors_NC: npt.NDArray[np.floating[Any]]) -> Truth:
        """The ground truth after picture `n` was resized by `factors_NC[n]`: x and y, which differ slightly by
        rounding."""
        f = factors_NC.astype(np.float32)[:, None]
        return Truth(self.landmarks * f, self.visible, self.points * np.tile(f, 3), self.width * f.mean(axis=2))


@dataclass(frozen=True, slots=True)
class Dataset:
    """A checked data set: its sheet, samples and ground truth. Pictures are read from disk on demand."""

    name: str
    licence: str
    sheet: Sheet
    folders: tuple[Path | ShardPictures, ...]  # per sample: its folder, or the shards that contain its picture
    samples: tuple[Sample, ...]
    truth: Truth

    def __len__(self) -> int:
        return len(self.samples)

    def rows_of(self, *splits: Split) -> npt.NDArray[np.intp]:
        """Rows of the samples of the given splits."""
        return np.flatnonzero([sample.split in splits for sample in self.samples])

    def subset(self, rows: npt.NDArray[np.intp]) -> Dataset:
        """A data set of the given samples, in that order."""
        return replace(
            self,
            folders=tuple(self.folders[row] for row in rows),
            samples=tuple(self.samples[row] for row in rows),
            truth=self.truth.rows(rows),
        )

    def picture(self, row: int) -> Picture:
        """The picture of a sample: (H, W, 3) RGB. Raises TrainingError if it is unreadable or has another size."""
        sample, folder = self.samples[row], self.folders[row]
        picture = (
            folder.picture(sample.image) if isinstance(folder, ShardPictures) else read_picture(folder / sample.image)
        )
        if picture.shape[:2] != (sample.height, sample.width):
            got = f"{picture.shape[1]}x{picture.shape[0]}"
            raise TrainingError(f"{sample.image}: is {got}; samples.jsonl says {sample.width}x{sample.height}")
        return picture

    def fetch(self, row: int, check: Callable[[], None]) -> None:
        """Download the shard that contains a sample's picture; `check` may raise to stop. Raises TrainingError."""
        folder = self.folders[row]
        if isinstance(folder, ShardPictures):
            folder.fetch(self.samples[row].image, check)

    def load_bytes(self, row: int) -> None:
        """Read the bytes of a sample's picture into memory if it is in a shard. Raises TrainingError."""
        folder = self.folders[row]
        if isinstance(folder, ShardPictures):
            folder.data(self.samples[row].image)

    @property
    def shard_sets(self) -> tuple[ShardPictures, ...]:
        """The shard sets that contain pictures."""
        return tuple({id(folder): folder for folder in self.folders if isinstance(folder, ShardPictures)}.values())

    def groups(self) -> tuple[int, ...] | None:
        """The shard number of each sample's picture; None if no picture is in a shard."""
        sets = self.shard_sets
        if not sets:
            return None
        counts = [0, *np.cumsum([len(each.index.shards) for each in sets]).tolist()]
        first = {id(each): at for each, at in zip(sets, counts)}
        return tuple(
            first[id(folder)] + folder.shard_of(sample.image) if isinstance(folder, ShardPictures) else -1
            for folder, sample in zip(self.folders, self.samples)
        )


def read_dataset(source: str | Path) -> Dataset:
    """Read and check a data set, given its folder or the URL of its shards; no picture is opened yet.

    Raises: TrainingError naming the file, line and field of the first fault.
    """
    store = open_store(source)
    content = store.read("dataset.json")
    try:
        head = check_json(content, _Head, error=TrainingError)
    except TrainingError as error:
        raise TrainingError(f"{source}/dataset.json: {error}; mine the data set again") from error
    try:
        sheet = parse_sheet(_read_text(store, "sheet.yaml", source), where=f"{source}/sheet.yaml")
    except PackError as error:
        raise TrainingError(str(error)) from error
    samples = parse_samples(_read_text(store, "samples.jsonl", source), f"{source}/samples.jsonl", sheet)
    index = store.index()
    folder = Path(source) if index is None else ShardPictures(store, index)
    return Dataset(
        name=Path(source).name if head.name is None else head.name,
        licence=head.licence,
        sheet=sheet,
        folders=(folder,) * len(samples),
        samples=samples,
        truth=_make_truth(sheet, samples),
    )


def _read_text(store: ShardStore, name: str, source: str | Path) -> str:
    try:
        return store.read(name).decode()
    except UnicodeDecodeError as error:
        raise TrainingError(f"{source}/{name}: cannot be read ({error}); mine the data set again") from error


def join(datasets: Sequence[Dataset]) -> Dataset:
    """Concatenate data sets. Raises TrainingError if their sheets differ in landmarks or shapes."""
    first = datasets[0]
    for other in datasets[1:]:
        if odd := _sheet_difference(first.sheet, other.sheet):
            raise TrainingError(
                f"data sets '{first.name}'{_folder_note(first)} and '{other.name}'{_folder_note(other)}: their sheets "
                f"have different landmarks or shapes ({odd}); mine both with one --sheet"
            )
    return replace(
        first,
        name=" + ".join(dataset.name for dataset in datasets),
        licence="; ".join(dict.fromkeys(dataset.licence for dataset in datasets)),
        folders=tuple(folder for dataset in datasets for folder in dataset.folders),
        samples=tuple(sample for dataset in datasets for sample in dataset.samples),
        truth=Truth.concatenate(dataset.truth for dataset in datasets),
    )


def _folder_note(data: Dataset) -> str:
    """The folder of a data set: data sets of one character may share a name."""
    folder = data.folders[0] if data.folders else None
    return f" ({folder})" if isinstance(folder, Path) else ""


def _sheet_difference(one: Sheet, other: Sheet) -> str:
    """The first difference between two sheets, as a phrase; empty if they have the same landmarks and shapes."""
    for kind, a, b in (
        ("landmark", one.landmark_names, other.landmark_names),
        ("shape", one.shape_names, other.shape_names),
    ):
        if odd := [name for name in (*a, *b) if (name in a) != (name in b)]:
            return f"{kind} '{odd[0]}' is in only one of them"
        if tuple(a) != tuple(b):
            return f"the {kind}s are in another order"
    for mine, theirs in zip(one.shapes, other.shapes):
        if (mine.n_points, mine.closed) != (theirs.n_points, theirs.closed):
            return f"shape '{mine.name}' has {mine.n_points} control points in one, {theirs.n_points} in the other"
    return ""


def write_dataset(folder: Path, *, name: str, licence: str, sheet: Sheet, samples: Iterable[Sample]) -> int:
    """Write the sheet, the sample lines and, last, `dataset.json`. Returns the number of samples.

    The caller writes each picture as it is made (`write_picture`), so that they never fill the memory.
    """
    lines = [sample.line() for sample in samples]
    if not lines:
        raise TrainingError(f"{folder}: no sample to write; nothing was mined or rendered")
    (folder / INDEX).unlink(missing_ok=True)  # the index of an earlier sharded data set
    write_text(folder / "sheet.yaml", dump_sheet(sheet))
    write_text(folder / "samples.jsonl", "\n".join(lines) + "\n")
    write_json(folder / "dataset.json", {"format": FORMAT, "version": VERSION, "name": name, "licence": licence})
    return len(lines)


def read_picture(path: Path) -> Picture:
    """Read a picture file: (H, W, 3) RGB. Raises TrainingError."""
    picture = decode(path.read_bytes()) if path.is_file() else None
    if picture is None:
        raise TrainingError(f"{path}: cannot be read as a picture; mine or render the data set again")
    return picture


def has_dataset_json(folder: Path) -> bool:
    """Whether a folder contains the `dataset.json` of a data set, of any version."""
    with suppress(OSError, TrainingError):
        return bool(check_json(file_bytes(folder / "dataset.json"), _Kind, error=TrainingError))
    return False


def _make_truth(sheet: Sheet, samples: Sequence[Sample]) -> Truth:
    n, rows, slots = len(samples), sheet.landmark_names, sheet.point_rows()
    landmark_row = {name: row for row, name in enumerate(rows)}
    shape_row = {name: row for row, name in enumerate(sheet.shape_names)}
    placed = np.full((n, len(rows), 3), np.nan, np.float32)
    points = np.full((n, sheet.n_points, 6), np.nan, np.float32)
    width = np.full((n, len(shape_row)), np.nan, np.float32)
    for at, sample in enumerate(samples):
        for name, point in sample.landmarks.items():
            placed[at, landmark_row[name]] = point
        for name, shape in sample.shapes.items():
            points[at, slots[name]] = shape.points
            width[at, shape_row[name]] = np.nan if shape.width_px is None else shape.width_px
    return Truth(placed[..., :2], placed[..., 2], points, width)
