"""Edits that people have made on a shot: read from the project file, and kept by a run in all its results.

Hand-made keys, and splines that followed a landmark placed by hand, are kept in shapes, mattes and clean plates.
Widths, profiles, feathers, tapers and paint set by hand apply to every frame; so do hold-outs and hand-drawn shapes. A
run never changes any of them. Groups that people moved also move the models' shapes in them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rotopaint_ai.jobs import RunJob
from rotopaint_ai.pipeline.executor import StageTimes
from rotopaint_ai.pipeline.hold_outs import FrontPlace, place_of
from rotopaint_ai.pipeline.process_frame import FrameProcessor, TrackedFrame, matte_facts
from rotopaint_ai.pipeline.record_store import FrameRecord, PointRow, SourceFile
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area
from rotopaint_ai.project import Project, SeamSettings, State
from rotopaint_ai.project.face_groups import choose_face, pack_of, with_face_grouped
from rotopaint_ai.project.merge_run import with_profile
from rotopaint_ai.project.plate_files import FileFacts
from rotopaint_ai.project.state import Mark
from rotopaint_ai.seams.paint_settings import Paint
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes.edit_layers import key_under, ways_between
from rotopaint_ai.shapes.group_moves import apply_groups, moved_groups
from rotopaint_ai.shapes.layers import Layer, Matrix
from rotopaint_ai.shapes.manual_keys import (
    frames_settled,
    hand_corrected_frames,
    manual_keys,
    with_feather_of,
    with_manual_keys,
)
from rotopaint_ai.shapes.roto import Key, RotoDocument, RotoShape
from rotopaint_ai.sheet import ShapeSpec, Sheet

PointRows = Sequence[PointRow]


@dataclass(frozen=True, slots=True)
class Overrides:
    """People's edits of a shot.

    Splines by frame and shape, landmarks by frame and name, settings by seam, clone strokes by frame, names given to
    shapes, shapes that people drew, names of the hold-outs, shapes with a feather line, moved groups by the names of
    their shapes, the name of the run's face, the document with all edits, and the models' predictions of earlier runs.
    `followed`, by frame: shapes that moved along with a landmark beside them, so that nobody has judged them.
    """

    splines: Mapping[int, Mapping[str, PointRows]] = field(default_factory=dict)
    landmarks: Mapping[int, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    seams: Mapping[str, SeamSettings] = field(default_factory=dict)
    document: RotoDocument | None = None
    strokes: Mapping[int, Strokes] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    own: tuple[RotoShape, ...] = ()
    away: frozenset[str] = frozenset()
    soft: Mapping[str, RotoShape] = field(default_factory=dict)
    groups: Mapping[str, Layer] = field(default_factory=dict)
    face: str = ""
    predicted: RotoDocument | None = None
    followed: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @property
    def own_names(self) -> frozenset[str]:
        """Names of the shapes that no model of the run makes."""
        return frozenset(shape.name for shape in self.own)

    @property
    def paints(self) -> dict[str, Paint]:
        """The fill settings of each seam for which a person has set any."""
        return {name: Paint(each.method, each.grain, each.strength, each.hold_out) for name, each in self.seams.items()}

    def sheet(self, sheet: Sheet) -> Sheet:
        """The pack's sheet with feathers and tapers set by hand."""
        return replace(sheet, shapes=tuple(self._spec(spec) for spec in sheet.shapes)) if self.seams else sheet

    def digest(self, frame: int) -> str:
        """A hash of the edits that affect a frame's files; empty without any."""
        widths = {name: [asdict(each)] for name, each in sorted(self.seams.items())}
        strokes = [asdict(stroke) for stroke in self.strokes.get(frame, ())]
        content: list[Any] = [self.splines.get(frame, {}), self.landmarks.get(frame, {}), widths, strokes]
        drawn: list[Any] = [matte_facts(each, frame) for each in self.own if each.is_visible(frame)]
        drawn += [(name, each.feather_at(frame)) for name, each in self.soft.items()]
        content += [drawn, sorted(self.away)] if drawn or self.away else []
        content += [(name, way) for name in sorted(self.groups) if (way := self._group_way(name, frame)) is not None]
        return hashlib.sha1(json.dumps(content).encode(), usedforsecurity=False).hexdigest() if any(content) else ""

    def fingerprint(self) -> str:
        """A hash of all edits; empty without any."""
        strokes = {frame: [asdict(stroke) for stroke in row] for frame, row in sorted(self.strokes.items())}
        seams = {name: asdict(each) for name, each in sorted(self.seams.items())}
        content: list[Any] = [self.splines, self.landmarks, seams, strokes]
        drawn = [asdict(each) for each in {**{each.name: each for each in self.own}, **self.soft}.values()]
        content += [drawn, sorted(self.away)] if drawn or self.away else []
        content += [(name, asdict(layer)) for name, layer in sorted(self.groups.items())]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16] if any(content) else ""

    def apply_overrides(self, frame: int, settled: TrackedFrame, sheet: Sheet) -> TrackedFrame:
        """The tracking result of a frame with people's edits in place of the models' values."""
        known = {spec.name: spec.n_points for spec in sheet.shapes}
        own = {name: rows for name, rows in self.splines.get(frame, {}).items() if known.get(name) == len(rows)}
        judged = own.keys() - self.followed.get(frame, frozenset())
        return replace(
            settled,
            lost=None if own else settled.lost,
            landmarks=self._landmarks_by_hand(frame, settled, sheet),
            shapes={**settled.shapes, **own},
            widths=self._widths_by_hand(settled, own),
            errors={**settled.errors, **dict.fromkeys(judged, 0.0)},
            hidden=tuple(name for name in settled.hidden if name not in own),
            unseen={name: third for name, third in settled.unseen.items() if name not in judged},
        )

    def _widths_by_hand(self, settled: TrackedFrame, own: Mapping[str, PointRows]) -> Mapping[str, float]:
        """The widths: those set by hand, else the model's, else the shot's where the model measured none."""
        shot = {shape.name: shape.width_px for shape in (self.document.shapes if self.document is not None else ())}
        usual = {name: width for name in own if (width := shot.get(name)) is not None}
        hand = {name: each.width_px for name, each in self.seams.items() if each.width_px is not None}
        widths = {**usual, **settled.widths}
        return {**widths, **{name: width for name, width in hand.items() if name in widths}}

    def shapes_by_hand(self, shapes: list[RotoShape], sheet: Sheet) -> list[RotoShape]:
        """A frame's shapes of the sheet with people's settings, then the shapes that people drew."""
        made = [replace(self._softened(self._placed(each)), subtract=each.name in self.away) for each in shapes]
        return [*made, *(each for each in self.own if each.name not in sheet.shape_names)]

    def _placed(self, shape: RotoShape) -> RotoShape:
        """A model's shape at a frame with the transform of its group; shapes that people drew include it already."""
        keys = {f: self._placed_key(shape.name, f, key) for f, key in shape.keys.items()}
        return shape.with_keys(keys) if shape.name in self.groups else shape

    def _placed_key(self, name: str, frame: int, key: Key) -> Key:
        way = None if name in self.splines.get(frame, {}) else self._group_way(name, frame)
        return key if way is None else key_under(way, key)

    def _group_way(self, name: str, frame: int) -> Matrix | None:
        return ways_between(None, self.groups.get(name), [frame]).get(frame)

    def _softened(self, shape: RotoShape) -> RotoShape:
        """A shape with the width profile, or the feather line, that people set."""
        profile = self.seams[shape.name].profile if shape.name in self.seams else None
        if profile is not None and not shape.closed:
            return with_profile(shape, profile)
        return with_feather_of(shape, self.soft[shape.name]) if shape.name in self.soft else shape

    def restore_provenance(self, document: RotoDocument) -> RotoDocument:
        """A run's document with the provenance of human keys and landmarks restored."""
        if self.document is None:
            return document
        by_hand: dict[str, set[int]] = {}
        for frame, row in self.splines.items():
            for name in row:
                by_hand.setdefault(name, set()).add(frame)
        kept = with_manual_keys(apply_groups(document, self.document, by_hand), self.document, self.own_names)
        kept = replace(kept, shapes=tuple(self._softened(shape) for shape in kept.shapes))
        return with_face_grouped(State(document=kept, predicted=document, face=self.face)).document or kept

    def _landmarks_by_hand(self, frame: int, settled: TrackedFrame, sheet: Sheet) -> Sequence[PointRow | None]:
        own = self.landmarks.get(frame, {})
        if not own or not settled.landmarks:
            return settled.landmarks
        return [[*own[name], 0.0] if name in own else row for name, row in zip(sheet.landmark_names, settled.landmarks)]

    def _spec(self, spec: ShapeSpec) -> ShapeSpec:
        own = self.seams.get(spec.name)
        if own is None:
            return spec
        return replace(
            spec,
            feather_px=spec.feather_px if own.feather_px is None else own.feather_px,
            taper=spec.taper if own.taper is None else own.taper,
        )


NO_OVERRIDES = Overrides()


def overrides_of(state: State) -> Overrides:
    """The edits of a project's state that a run keeps."""
    document, model = state.document, {s.name: s for s in state.predicted.shapes} if state.predicted else {}
    splines: dict[int, dict[str, PointRows]] = {}
    landmarks: dict[int, dict[str, tuple[float, float]]] = {}
    judged = {} if document is None else frames_settled(state.predicted, document)
    for shape in document.shapes if document is not None else ():
        assert document is not None
        for frame in hand_corrected_frames(model.get(shape.name, shape), shape, document):
            splines.setdefault(frame, {})[shape.name] = [list(point) for point in shape.keys[frame].points]
    for frame, names in document.landmarks.hand.items() if document is not None else ():
        assert document is not None
        row = dict(zip(document.landmarks.names, document.landmarks.keys.get(frame, ())))
        landmarks[frame] = {name: (mark.x, mark.y) for name in names if (mark := row.get(name)) is not None}
    shapes = document.shapes if document is not None else ()
    own = tuple(s for s in shapes if s.name in state.aside or (manual_keys(s) and s.name not in model))
    away = frozenset(shape.name for shape in shapes if shape.subtract)
    soft = {shape.name: shape for shape in shapes if shape.has_feather_line}
    moved = {} if document is None else {name: layer for name, layer in moved_groups(document).items() if name in model}
    return Overrides(
        splines,
        landmarks,
        state.seams,
        document,
        state.strokes,
        state.names,
        own,
        away,
        soft,
        moved,
        state.face,
        state.predicted,
        {
            frame: frozenset(name for name in row if name in model and frame not in judged[name])
            for frame, row in splines.items()
        },
    )


@dataclass(frozen=True, slots=True)
class ProjectInputs:
    """What a run takes from a project.

    The overrides, crop boxes as `--crop` takes them, its plate with facts of checked files, people's marks and notes on
    frames, and the pack that its face was last run with.
    """

    work: Overrides = NO_OVERRIDES
    crops: tuple[str, ...] = ()
    plate: Mapping[str, Any] | None = None
    files: Mapping[int, FileFacts] = field(default_factory=dict)
    marks: Mapping[int, Mark] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)
    pack: str | None = None


def read_inputs(path: Path, face: str | None = None) -> ProjectInputs:
    """What a run takes from a project, read at one moment; with a named face as the current one.

    Raises: ProjectError, UsageError for a bad name.
    """
    project = Project.open(path, write=False)
    try:
        state, plate, files = project.load().state, project.note("plate"), project.files()
        pack = (project.note("view") or {}).get("pack")
    finally:
        project.close()
    if face is not None:
        state, pack = choose_face(state, face, None), pack_of(state, face, pack)
    crops = tuple(box.word(frame) for frame, box in sorted(state.crops.items()))
    return ProjectInputs(overrides_of(state), crops, plate, files, state.marks, state.notes, pack)


def inputs_for(job: RunJob) -> ProjectInputs:
    """What a job takes from its project; nothing without a project. Raises as `read_inputs`."""
    return ProjectInputs() if job.project is None else read_inputs(Path(job.project), job.face)


@dataclass(frozen=True, slots=True)
class OverridingProcessor:
    """Finishes frames with people's edits; thread-safe."""

    inner: FrameProcessor
    work: Overrides

    def read(self, frame: int, near: Area | None = None, known: SourceFile | None = None) -> Frame:
        """A frame from disk, see `FrameProcessor.read`."""
        return self.inner.read(frame, near, known=known)

    def finish(self, frame: Frame, settled: TrackedFrame, ms: StageTimes) -> FrameRecord:
        """Write a frame's files; the record keeps the models' predictions where people's edits replace them."""
        own, inner = self._with_edits(frame.number, settled)
        record = inner.finish(frame, own, ms)
        by_hand = self.work.splines.get(frame.number, {})
        predicted = {name: settled.shapes[name] for name in by_hand if name in settled.shapes}
        marks = settled.landmarks if frame.number in self.work.landmarks else None
        return replace(
            record,
            work=self.work.digest(frame.number),
            predicted={**predicted, **settled.predicted},
            predicted_landmarks=settled.predicted_landmarks or marks,
            carried=tuple(settled.predicted),
        )

    def place_of(self, frame: int, settled: TrackedFrame) -> FrontPlace | None:
        """Where something in front of a frame's seams is looked for."""
        own, inner = self._with_edits(frame, settled)
        return place_of(own.landmarks, inner.shapes_of(frame, own), frame)

    def _with_edits(self, frame: int, settled: TrackedFrame) -> tuple[TrackedFrame, FrameProcessor]:
        inner = replace(self.inner, by_hand=partial(self.work.shapes_by_hand, sheet=self.inner.sheet))
        return self.work.apply_overrides(frame, settled, self.inner.sheet), inner

    def fail(self, frame: int, message: str) -> FrameRecord:
        """The record of a frame that could not be read."""
        return replace(self.inner.fail(frame, message), work=self.work.digest(frame))
