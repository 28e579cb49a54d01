"""A run's results written into a project file, as one step that can be undone."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rotopaint_ai import fills
from rotopaint_ai.errors import LockedError, PlateError, UsageError
from rotopaint_ai.frames import parse_frames, summarise
from rotopaint_ai.jobs import Event, RunJob, Sink
from rotopaint_ai.pipeline.overrides import ProjectInputs, overrides_of
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord, RunState, hold_spans
from rotopaint_ai.pipeline.run_document import build_document
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.project import Project, State, plate_files, run_record
from rotopaint_ai.project.face_groups import choose_face, pack_of
from rotopaint_ai.project.fingerprints import NOTE, PaintFingerprints
from rotopaint_ai.project.merge_run import drawn_state, merge_run, partial_run_frames, standing_marks
from rotopaint_ai.project.owner import HEARTBEAT_S
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.refit import repeat_propagations
from rotopaint_ai.shapes.roto import RotoDocument


def compare_plate(
    inputs: ProjectInputs, project_file: str | None, plate: Plate, *, is_same_shot: bool = False
) -> str | None:
    """A warning where a project's plate was rendered anew since it was made; None where it is the same.

    Raises: PlateError where the size differs, and for other pictures in another place: another shot, unless
    `is_same_shot`.
    """
    known, remembered = inputs.plate, plate_files.compared_facts(inputs.files, plate.frames)
    if known is None or project_file is None:
        return None
    path, size = Path(project_file), (known["width"], known["height"])
    if (plate.width, plate.height) != size:
        raise PlateError(
            f"{plate.name}: is {plate.width} x {plate.height}, {path.name} was made on {known['name']} of "
            f"{size[0]} x {size[1]}; choose that plate, or another project"
        )
    match = plate_files.compare(remembered, {frame: plate.path_of(frame) for frame in remembered})
    if not match.is_other_plate:
        return None
    other = f"holds other pictures than those that {path.name} was made on (compared frames {summarise(match.other)})"
    source = str(known.get("source", ""))
    folder, *before = map(_real_place, (str(plate.path_of(match.other[0]).parent), source, os.path.dirname(source)))
    if not is_same_shot and (known["name"] != plate.name or folder not in before):
        raise PlateError(
            f"{plate.name}: {other}, {source}; choose that plate, or another project; 'run --force' takes it as "
            "the same shot rendered anew"
        )
    return f"{plate.name}: {other}; was it rendered anew?"


def _real_place(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


class OpenProject:
    """A project that a run will write its results into: locked from the first frame to the last."""

    def __init__(self, path: Path) -> None:
        """Raises: LockedError, before any work is done, where somebody else has the project open; ProjectError."""
        self.project = Project.open(path)
        self._last_heartbeat = time.monotonic()
        if self.project.is_read_only:
            who = self.project.other_owner
            self.project.close()
            why = f"{who} works on it; press Run there" if who is not None else "it may not be written"
            raise LockedError(f"{path.name}: {why}, or add --leave-project to read it only")

    def take_face(self, name: str) -> None:
        """Choose a face as the current face, as a step that can be undone, with its pack and its run record.

        Raises UsageError for a bad name.
        """
        project, before = self.project, self.project.load().state
        view = project.note("view") or {}
        after = choose_face(before, name, view.get("pack"))
        if after == before:
            return
        project.append("choose face" if before.face else "name face", before, after)
        if before.face:
            nothing = run_record.to_json(RunRecord())
            project.set_note(f"run {before.face}", project.note("run") or nothing)
            project.set_note("run", project.note(f"run {name}") or nothing)
            project.set_note("view", {**view, "pack": pack_of(before, name, view.get("pack"))})

    def sink(self, sink: Sink) -> Sink:
        """A sink that also sends the project's heartbeat."""

        def tell(event: Event) -> None:
            if time.monotonic() - self._last_heartbeat > HEARTBEAT_S:
                self._last_heartbeat = time.monotonic()
                self.project.heartbeat()
            sink(event)

        return tell


@contextmanager
def open_target(job: RunJob) -> Iterator[OpenProject | None]:
    """The project that takes a job's results; None without one."""
    if job.project is None or job.leave_project:
        yield None
        return
    project = OpenProject(Path(job.project))
    try:
        if job.face is not None:
            project.take_face(job.face)
        yield project
    finally:
        project.project.close()


def save_results(open_project: OpenProject, plan: Plan, state: RunState) -> None:
    """Write the results of a run into its project.

    Carried-over corrections are computed again from the hand-made keys. Frames outside the run do not change. Raises:
    ProjectError.
    """
    project = open_project.project
    before = project.load().state
    predicted = build_document(map(_record_as_predicted, state.records()), plan)
    written = build_document(state.records(), plan)
    asked = partial_run_frames(plan.frames, before.document)
    after = merge_run(before, plan.work.restore_provenance(written), asked, predicted=predicted)
    assert after.document is not None
    known, record = project.note("run"), _run_record(plan, state)
    if known is not None and asked is not None:
        record = record.joined(run_record.from_json(known), frozenset(asked))
    if before.document is not None and after.predicted is not None:
        ran = partial_run_frames({*plan.frames, *plan.missing}, before.document)
        errors = record.errors_by_shape()
        document = repeat_propagations(after.predicted, after.document, before.document, before.spreads, ran, errors)
        after = replace(after, document=document, marks=standing_marks(before, document))
    project.append("run", before, after)
    if plan.job.clean:
        project.set_note(NOTE, {**(project.note(NOTE) or {}), **_painted_fingerprints(plan, state, written)})
    view = {**(project.note("view") or {}), "pack": _lasting(plan.job.model)}
    for name, value in {**_notes(plan), "run": run_record.to_json(record), "view": view}.items():
        project.set_note(name, value)
    sources = {record.frame: record.source for record in state.finished.values() if record.source is not None}
    project.set_files({frame: (s.path, s.size, s.mtime_ns, s.fingerprint) for frame, s in sources.items()})


def _painted_fingerprints(plan: Plan, state: RunState, written: RotoDocument) -> dict[str, str]:
    """Fingerprints of the clean plates that a run wrote.

    Empty for frames of a run by another method than the shot's own, and for frames painted before the latest edits.
    """
    work = plan.work
    known = State(document=work.document, seams=work.seams, strokes=work.strokes)
    drawn = drawn_state(known, work.restore_provenance(written), partial_run_frames(plan.frames, work.document))
    whole = [frame for frame, record in state.finished.items() if record.status != "failed"]
    fits = {frame for frame in whole if state.finished[frame].work == work.digest(frame)}
    is_own = plan.job.method == fills.DEFAULT
    return {str(f): each if is_own and f in fits else "" for f, each in PaintFingerprints().of(drawn, whole).items()}


def _record_as_predicted(record: FrameRecord) -> FrameRecord:
    """A record with the models' own shapes and landmarks, without corrections."""
    marks = record.landmarks if record.predicted_landmarks is None else record.predicted_landmarks
    return replace(record, shapes={**record.shapes, **record.predicted}, landmarks=marks, carried=())


def _lasting(model: str | None) -> str | None:
    """The pack's name, or its absolute path, which is valid from any folder."""
    return model if model is None or not Path(model).is_dir() else os.path.abspath(model)


def _notes(plan: Plan) -> Mapping[str, Any]:
    """Notes for the panel about the run, besides its shapes.

    Paths are absolute, because the panel runs in another folder.
    """
    plate = plan.plate
    return {
        "plate": {
            "source": os.path.abspath(plan.job.plates),
            "name": plate.name,
            "width": plate.width,
            "height": plate.height,
            "pixel_aspect": plate.pixel_aspect,
            "fps": plate.fps,
            "colourspace": plate.colourspace,
        },
        "out": str(plan.out.absolute()),
        "shapes": _file_digest(plan.out / "shapes.roto.json"),
    }


def _run_record(plan: Plan, state: RunState) -> RunRecord:
    """The panel's facts about each frame."""
    records = [state.finished[frame] for frame in sorted(state.finished)]
    return RunRecord(
        errors={record.frame: dict(record.errors) for record in records if record.errors},
        lost=frozenset(record.frame for record in records if record.status == "lost"),
        failed={record.frame: record.message or "" for record in records if record.status == "failed"},
        held=hold_spans(records),
        seam={record.frame: (record.seam_before, record.seam_after) for record in records},
        device=plan.models.device_note,
    )


def _file_digest(path: Path) -> str | None:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest() if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Repaint:
    """A project's shapes, seam settings, touch-up and plate; `notes` is None where the project is only read."""

    state: State
    inputs: ProjectInputs
    notes: OpenProject | None
    out: Path

    def sink(self, sink: Sink, frames: str | None) -> Sink:
        """A sink that also keeps the project's lock alive and, when the run starts, marks `frames` (None: all) as not
        painted."""
        inner = sink if self.notes is None else self.notes.sink(sink)

        def tell(event: Event) -> None:
            if event.kind == "started":  # not earlier, because a refused job must not change any frame
                self.begin(frames)
            inner(event)

        return tell

    def begin(self, frames: str | None) -> None:
        """Mark these frames, or all, as not painted."""
        if self._is_ours():
            gone = _noted_frames(frames)
            known = self._known_painted()
            self._write_painted_note({f: each for f, each in known.items() if gone is not None and f not in gone})

    def end(self, done: Sequence[int]) -> None:
        """Record that the clean plates of these frames match the project's state."""
        if self._is_ours():
            self._write_painted_note({**self._known_painted(), **PaintFingerprints().of(self.state, done)})

    def _is_ours(self) -> bool:
        """Whether the project has fingerprints of the clean plates in this folder."""
        if self.notes is None or (noted := self.notes.project.note("out")) is None:
            return False
        folder = self.notes.project.path.absolute().parent  # older projects may name theirs relative to some folder
        return (folder / Path(noted)).resolve() == self.out.resolve()

    def _known_painted(self) -> dict[int, str]:
        assert self.notes is not None
        return {int(frame): each for frame, each in (self.notes.project.note(NOTE) or {}).items()}

    def _write_painted_note(self, painted: dict[int, str]) -> None:
        assert self.notes is not None
        self.notes.project.set_note(NOTE, {str(frame): each for frame, each in sorted(painted.items())})


@contextmanager
def open_repaint(path: Path, out: Path, *, leave: bool) -> Iterator[Repaint]:
    """A project to paint from; `leave`: open it read-only, because somebody else records what is painted.

    Raises: LockedError where somebody has it open, ProjectError, UsageError where its shot has no run yet.
    """
    project = None if leave else OpenProject(path)
    try:
        state, inputs = _read_contents(path) if project is None else _contents_of(project.project)
        if state.document is None:
            raise UsageError(f"{path.name}: nothing was run on this shot yet; rotopaint run --project makes its shapes")
        yield Repaint(state, inputs, project, out)
    finally:
        if project is not None:
            project.project.close()


def _read_contents(path: Path) -> tuple[State, ProjectInputs]:
    project = Project.open(path, write=False)
    try:
        return _contents_of(project)
    finally:
        project.close()


def _contents_of(project: Project) -> tuple[State, ProjectInputs]:
    """A project's state, and what is painted from it: overrides, and the plate with facts of checked files."""
    state = project.load().state
    return state, ProjectInputs(overrides_of(state), plate=project.note("plate"), files=project.files())


def _noted_frames(text: str | None) -> set[int] | None:
    return None if text is None else set(parse_frames(text))
