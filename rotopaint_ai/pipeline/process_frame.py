"""The processing of one tracked frame: shapes drawn, seams filled, files written, a record made."""

from __future__ import annotations

import shutil
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rotopaint_ai.crops import Crop
from rotopaint_ai.errors import PlateError, RotopaintError
from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import RunJob
from rotopaint_ai.pipeline.executor import StageTimes, time_stage
from rotopaint_ai.pipeline.frame_store import FrameStore
from rotopaint_ai.pipeline.hold_outs import Fronts
from rotopaint_ai.pipeline.out_folder import FOLDER, Stamp
from rotopaint_ai.pipeline.record_store import FrameRecord, FrameStatus, PointRow, SourceFile, Stations
from rotopaint_ai.pipeline.render_frame import (
    FRONT,
    NOT_FINITE,
    Format,
    Mattes,
    apply_strokes,
    check_measurable,
    draw_mattes,
    draw_pictures,
    look_at_seams,
    matte_names,
    patch_name,
    write_filled,
    write_front,
    write_mattes,
    write_patch,
)
from rotopaint_ai.plates.plate import Frame, Plate, plate_fingerprint
from rotopaint_ai.plates.plate_window import Area
from rotopaint_ai.seams.front import FrontFinder
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.paint_settings import Paint, PaintTable
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.seams.visibility import Visibility
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape
from rotopaint_ai.sheet import Sheet


@dataclass(frozen=True, slots=True)
class TrackedFrame:
    """The tracking result of a frame: rounded rows of plain numbers in plate space, pixels.

    `landmarks` rows are `[x, y, expected_error_px]` or None where occluded; `shapes` rows are control points; all are
    empty where the face was lost, and `lost` says why. `hold` is the first frame of the exposure that this one repeats
    (None: a new one). `hidden` names shapes that something else covers: they keep their points and have no matte.
    `predicted` and `predicted_landmarks` are what the models said where corrections of other frames were carried over.
    `unseen` as of a record.
    """

    crop: Crop
    lost: str | None
    hold: int | None
    landmarks: Sequence[PointRow | None]
    shapes: Mapping[str, Sequence[PointRow]]
    widths: Mapping[str, float]
    errors: Mapping[str, float]
    hidden: Sequence[str]
    predicted: Mapping[str, Sequence[PointRow]] = field(default_factory=dict)
    predicted_landmarks: Sequence[PointRow | None] | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, record: FrameRecord) -> TrackedFrame:
        """The fields of a tracked frame that its record keeps."""
        assert record.crop is not None
        return cls(
            crop=Crop(*record.crop),
            lost=record.message if record.status == "lost" else None,
            hold=record.hold,
            landmarks=record.landmarks or (),
            shapes=record.shapes,
            widths=record.widths,
            errors=record.errors,
            hidden=record.hidden,
            predicted=record.predicted,
            predicted_landmarks=record.predicted_landmarks,
            unseen=record.unseen,
        )


REACH = 1.15  # times the crop's side: pictures of the report show half as much again as the seams are high ...
BROAD = 4 / 3  # ... and are at least as much broader
AIR_PX = 16
READS = 3  # tries to read a frame whose file is just being written
KEPT_EXPOSURES = 4  # exposures in memory; more than are ever in work at once would be waste


@dataclass(frozen=True, slots=True)
class DrawnMattes:
    """Mattes of a frame, the files that hold them (paths inside the run's folder), and what they were drawn from."""

    source: Any
    mattes: Mattes
    written: tuple[str, ...]


class HoldCache:
    """Mattes of the last drawn exposures; a frame that repeats one gets copies of its files.

    Stop motion is shot on twos and threes. All frames of a hold have the same shapes, so their matte files are
    identical. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[int, Future[DrawnMattes]] = OrderedDict()

    def draw(self, exposure: int, source: Any, make: Callable[[], DrawnMattes]) -> tuple[DrawnMattes, bool]:
        """The mattes of an exposure, by its first frame, and whether another frame of equal `source` drew them.

        The first caller draws; callers in other threads wait for it. If it fails, each of them draws for itself.
        """
        with self._lock:
            known = self._drawn.get(exposure)
            mine: Future[DrawnMattes] = Future()
            if known is None:
                self._drawn[exposure] = mine
                while len(self._drawn) > KEPT_EXPOSURES:
                    self._drawn.popitem(last=False)
        if known is not None and known.exception() is None and known.result().source == source:
            return known.result(), True
        try:
            drawn = make()
        except BaseException as error:
            mine.set_exception(error)
            raise
        mine.set_result(drawn)
        return drawn, False


@dataclass(frozen=True, slots=True)
class FrameProcessor:
    """Finishes frames; safe to call from several threads."""

    plate: Plate
    out: Path
    sheet: Sheet
    clean: bool
    method: str
    patch: bool = False
    model: LearnedFill | None = None
    paints: Mapping[str, Paint] = field(default_factory=dict)
    strokes: Mapping[int, Strokes] = field(default_factory=dict)
    pictured: frozenset[int] = frozenset()  # frames of which the report wants pictures
    holds: HoldCache = field(default_factory=HoldCache)
    kept: FrameStore = field(default_factory=FrameStore)
    sources: dict[int, SourceFile] = field(default_factory=dict)  # source files of frames in progress
    by_hand: Callable[[list[RotoShape]], list[RotoShape]] = list  # shapes as people want them drawn
    find_front: FrontFinder | None = None
    fronts: Fronts | None = None  # what `find_front` finds in the shot's exposures

    @classmethod
    def of(cls, job: RunJob, plate: Plate, sheet: Sheet, model: LearnedFill | None) -> FrameProcessor:
        """The processor for a job; `model` is the pack's learned fill."""
        return cls(plate, Path(job.out), sheet, job.clean, job.method, job.patch, model)

    @property
    def format(self) -> Format:
        """The values that determine the names of files."""
        return Format.of(self.plate)

    def read(
        self, frame: int, near: Area | None = None, *, keep_native: bool = True, known: SourceFile | None = None
    ) -> Frame:
        """A frame of the plate; with `keep_native`, ready to be written again. Raises: PlateError.

        The file's facts are compared before and after reading, so that the recorded stamp belongs to the content.
        `known`: the facts at an earlier reading.
        """
        for _ in range(READS):
            before = source_of(self.plate, frame)
            is_same = known is not None and before == replace(known, fingerprint="")
            same = known.fingerprint if known is not None and is_same else None
            read = None if same is None else self.kept.take(frame, near)
            read = read or self.plate.read(frame, near=near, keep_native=keep_native, fingerprint=same)
            if before is not None and before == source_of(self.plate, frame):
                self.sources[frame] = replace(before, fingerprint=read.fingerprint)
                return read
        raise PlateError(f"{self.plate.path_of(frame).name}: changes while it is read; run again when it is rendered")

    def _peek(self, frame: int) -> Frame:
        """A frame that is read for another frame's paint; its file's state is not recorded."""
        return self.plate.read(frame, keep_native=False)

    def finish(self, frame: Frame, settled: TrackedFrame, ms: StageTimes) -> FrameRecord:
        """Write a frame's files; a frame that cannot be processed is recorded as failed, and the others continue.

        Raises: OSError where the disk refuses, which would stop every frame.
        """
        try:
            record = self._finish_settled(frame, settled, ms)
            return record if record.is_finite else self._fail_settled(frame.number, settled, NOT_FINITE)
        except RotopaintError as error:
            return self._fail_settled(frame.number, settled, str(error))
        except OSError:
            raise
        except Exception as error:  # a bug that shows in one frame must not stop the others
            where = self._keep_trace(frame.number, traceback.format_exc())
            text = f"{type(error).__name__}: {error}; details are in {where}, please send it"
            return self._fail_settled(frame.number, settled, text)

    def fail(self, frame: int, message: str) -> FrameRecord:
        """The record of a frame that could not be read."""
        return FrameRecord(frame, "failed", source=self.source(frame), message=_frame_message(frame, message))

    def _fail_settled(self, frame: int, settled: TrackedFrame, message: str) -> FrameRecord:
        """The record of a frame that could not be painted or written; its landmarks and shapes are valid."""
        return replace(
            tracked_record(frame, "failed", settled), source=self.source(frame), message=_frame_message(frame, message)
        )

    def _keep_trace(self, frame: int, text: str) -> Path:
        path = self.out / FOLDER / "errors.txt"
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"frame {frame}\n{text}\n")
        return path

    def source(self, frame: int) -> SourceFile | None:
        """The facts of the frame's file when it was read; of now where it could not be read."""
        return self.sources.pop(frame, None) or source_of(self.plate, frame)

    def _finish_settled(self, frame: Frame, settled: TrackedFrame, ms: StageTimes) -> FrameRecord:
        number, format = frame.number, self.format
        shapes = self.shapes_of(number, settled)
        front = self._front_of(frame, ms)
        with time_stage(ms, "mattes"):
            mattes, written = self._frame_mattes(number, settled, shapes, front)
        with time_stage(ms, "fill"):
            seams = look_at_seams(frame, mattes, shapes, PaintTable(Paint(self.method), self.paints))
            filled = seams.filled(self.model) if seams is not None and self.clean else None
            filled = apply_strokes(frame, filled, self.strokes.get(number, ()), self._peek) if self.clean else None
            check_measurable(number, filled)
        if self.clean:
            with time_stage(ms, "encode"):
                written.append(format.clean_name(number))
                write_filled(self.out / written[-1], frame, filled)
                if self.patch:
                    written.append(patch_name(number, format))
                    write_patch(self.out / written[-1], filled, format)
        with time_stage(ms, "measure"):
            before = seams.seen if seams is not None else None
            after = filled.seams.look(filled.after) if filled is not None else None
            names = seams.names if seams is not None else ()
            looks = [seen for seen in (before, after) if seen is not None]
        if number in self.pictured:
            with time_stage(ms, "pictures"):
                draw_pictures(self.out, frame, settled.crop, filled)
        return replace(
            tracked_record(number, "done" if settled.lost is None else "lost", settled),
            source=self.source(number),
            message=settled.lost,
            seam_before=round(before.score, 4) if before is not None else None,
            seam_after=round(after.score, 4) if after is not None else None,
            seam_contrast=_contrast(names, looks),
            seam_scores=_scores(names, looks),
            seam_fill=filled.chosen if filled is not None else {},
            matte_px=round(mattes.seam_px, 1),
            outputs={name: Stamp.of(self.out / name) for name in written},
            ms={stage: round(time, 2) for stage, time in ms.items()},
        )

    def _front_of(self, frame: Frame, ms: StageTimes) -> Region | None:
        """What stands in front of a frame's face; None where nothing looks for it."""
        if self.fronts is None:
            return None
        with time_stage(ms, "front"):
            return self.fronts.at(frame)

    def _frame_mattes(
        self, frame: int, settled: TrackedFrame, shapes: Sequence[RotoShape], front: Region | None
    ) -> tuple[Mattes, list[str]]:
        """Draw and write a frame's mattes, or copy those of the exposure that it repeats."""

        def make() -> DrawnMattes:
            mattes = draw_mattes(shapes, frame, self.format)
            written = write_mattes(self.out, mattes, frame, self.format)
            if front is not None:
                mattes = replace(mattes, front=front)
                written.append(write_front(self.out, front, frame, self.format))
            return DrawnMattes(source, mattes, tuple(written))

        source = [matte_facts(shape, frame) for shape in shapes]
        drawn, is_repeat = self.holds.draw(frame if settled.hold is None else settled.hold, source, make)
        if not is_repeat:
            return drawn.mattes, list(drawn.written)
        written = matte_names(drawn.mattes.regions, frame, self.format)
        written += [] if front is None else [self.format.matte_name(FRONT, frame)]
        copy_files(self.out, drawn.written, written)
        return drawn.mattes, written

    def shapes_of(self, frame: int, settled: TrackedFrame) -> list[RotoShape]:
        """The sheet's shapes with a key at this frame (no key where the face was lost), then the shapes that people
        drew."""
        shapes = [
            RotoShape(
                name=spec.name,
                closed=spec.closed,
                role=spec.role,
                keys={frame: key_from_rows(settled.shapes[spec.name])} if spec.name in settled.shapes else {},
                width_px=None if spec.closed else settled.widths.get(spec.name),
                feather_px=spec.feather_px,
                taper=spec.taper,
                visible={frame: False} if spec.name in settled.hidden else {},
            )
            for spec in self.sheet.shapes
        ]
        return self.by_hand(shapes)


def face_area(crop: Crop) -> Area:
    """The area of a frame that its mattes, fills, measurements and pictures may read: the crop, and a margin around its
    seams."""
    high = crop.side * REACH / 2 + AIR_PX
    broad = BROAD * high
    return Area(crop.x - broad, crop.y - high, crop.x + broad, crop.y + high)


def matte_facts(shape: RotoShape, frame: int) -> tuple[Any, ...]:
    """All values that decide a shape's matte at a frame; equal values give equal mattes."""
    rows = shape.at(frame), shape.feather_at(frame), shape.widths_at(frame)
    facts = shape.name, shape.role, shape.width_px, shape.feather_px, shape.taper, shape.subtract
    return (*rows, *facts, shape.is_visible(frame))


def source_of(plate: Plate, frame: int) -> SourceFile | None:
    """The facts of a frame's file as it is now, without its content; None where it does not exist."""
    try:
        path = plate.path_of(frame)
        facts = path.stat()
    except (PlateError, OSError):
        return None
    return SourceFile(path.name, facts.st_size, facts.st_mtime_ns, ctime_ns=0 if plate.is_movie else facts.st_ctime_ns)


def changed_plates(plate: Plate, records: Iterable[FrameRecord]) -> list[int]:
    """Frames whose file has changed since it was used: another time or size, and other content.

    Frames that have become readable since count, too.
    """
    changed = []
    for record in records:
        before, now = record.source, source_of(plate, record.frame)
        if before is None or now is None:
            changed += [record.frame] if before is not now else []
        elif not before.fingerprint:  # it was never read whole
            changed += [record.frame] if _content_of(plate, record.frame) else []
        elif before != replace(now, fingerprint=before.fingerprint):
            changed += [record.frame] if _fingerprint_of(plate, record.frame) != before.fingerprint else []
    return changed


def _content_of(plate: Plate, frame: int) -> str | None:
    """The fingerprint of a frame's pixels as they are on disk; None where it cannot be read."""
    try:
        return plate.read(frame, keep_native=False).fingerprint
    except PlateError:
        return None


def _fingerprint_of(plate: Plate, frame: int) -> str | None:
    """As `_content_of` for a frame that was readable before; a file with one frame is not decoded."""
    return _content_of(plate, frame) if plate.is_movie else plate_fingerprint(plate.path_of(frame))


def tracked_record(frame: int, status: FrameStatus, settled: TrackedFrame) -> FrameRecord:
    """The tracked frame that a record describes."""
    return FrameRecord(
        frame,
        status,
        crop=(settled.crop.x, settled.crop.y, settled.crop.side),
        hold=settled.hold,
        landmarks=settled.landmarks,
        shapes=settled.shapes,
        widths=settled.widths,
        errors=settled.errors,
        hidden=settled.hidden,
        unseen=settled.unseen,
    )


def _contrast(names: Sequence[str], looks: Sequence[Visibility]) -> dict[str, list[Stations]]:
    """The contrast along each seam before painting and, where it was painted, after."""
    return {name: [list(seen.contrast[k]) for seen in looks] for k, name in enumerate(names)}


def _scores(names: Sequence[str], looks: Sequence[Visibility]) -> dict[str, list[float]]:
    """The visibility of each seam before painting and, where it was painted, after."""
    return {name: [round(seen.scores[k], 4) for seen in looks] for k, name in enumerate(names)}


def _frame_message(frame: int, message: str) -> str:
    """A message as one line that names its frame."""
    text = " ".join(message.split())
    return text if str(frame) in text else f"frame {frame}: {text}"


def key_from_rows(rows: Sequence[PointRow]) -> Key:
    """A key from rows of six numbers."""
    return Key(tuple(ControlPoint(*row) for row in rows))


def copy_files(out: Path, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Copy files inside a run's folder; each appears complete or not at all."""
    for source, target in zip(sources, targets, strict=True):
        with replacing(out / target) as beside:
            shutil.copyfile(out / source, beside)
