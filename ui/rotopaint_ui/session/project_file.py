"""The project file of a shot: opened, begun, relinked to a plate that was moved, closed. No Qt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import PlateError, ProjectError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.frames import summarise
from rotopaint_ai.project import SUFFIX, Project, State, plate_files, run_record
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.history import Step
from rotopaint_ui.session.project_store import ProjectStore
from rotopaint_ui.session.shot_files import PlateFacts, frame_paths

_PLATE_FIELDS = ("source", "name", "width", "height", "pixel_aspect", "fps", "colourspace")


@dataclass(frozen=True, slots=True)
class PlatePlace:
    """The last known place of a project's plate, and the output folder of its runs."""

    source: str | None
    colourspace: str | None
    out: Path | None


@dataclass(frozen=True, slots=True)
class OpenedProject:
    """What an opened project file holds.

    The state with the steps behind and ahead of it (the next one last), the run record, fingerprints of painted frames,
    the stored view, and where its plate was.
    """

    store: ProjectStore
    state: State
    behind: list[Step]
    ahead: list[Step]
    run: RunRecord
    painted: Mapping[int, str]
    view: Mapping[str, Any]
    place: PlatePlace
    was_left_behind: bool  # the last session ended without closing


class ProjectFile:
    """The project file that every step goes into, if there is one. `say` takes lines for the status."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._store: ProjectStore | None = None
        self._refusal: str | None = None
        self._awaits_plate = False
        self._view: Mapping[str, Any] = {}

    # --- opening and closing

    def read(self, path: Path) -> OpenedProject:
        """Open a project file beside the one that is open; `take` makes it the session's. Raises ProjectError."""
        project = Project.open(path)
        try:
            store = ProjectStore(project, self._say)
            state, behind, ahead = store.load()
            return OpenedProject(store, state, behind, ahead, *_read_notes(project), project.left_behind is not None)
        except BaseException:
            project.close()
            raise

    def create(self, path: Path, state: State) -> OpenedProject:
        """Begin a project file with a state. Raises ProjectError."""
        store = ProjectStore(Project.create(path, state), self._say)
        shown, behind, ahead = store.load()
        return OpenedProject(store, shown, behind, ahead, RunRecord(), {}, {}, PlatePlace(None, None, None), False)

    def take(self, opened: OpenedProject, *, awaits_plate: bool) -> None:
        """Store every step in this file from now on; the previous file is closed."""
        self._store, self._awaits_plate, self._view = opened.store, awaits_plate, opened.view
        self._refusal = None

    def go_without(self, reason: str) -> None:
        """Note that the shot has no project file for its steps, and the reason."""
        self._refusal = reason

    def close(self, state: State) -> None:
        """Write unsaved steps and close the file."""
        store, self._store, self._awaits_plate, self._refusal = self._store, None, False, None
        if store is not None:
            store.close(state)

    # --- what is open

    @property
    def path(self) -> Path | None:
        """The project file that is open."""
        return None if self._store is None else self._store.path

    @property
    def is_open(self) -> bool:
        """Whether steps go into a file."""
        return self._store is not None

    @property
    def awaits_plate(self) -> bool:
        """Whether a project is open whose plate is not."""
        return self._awaits_plate

    @property
    def lock_owner(self) -> str | None:
        """Who else works on the project, as "name on host"."""
        owner = None if self._store is None else self._store.project.other_owner
        return None if owner is None else str(owner)

    @property
    def is_read_only(self) -> bool:
        """Whether steps are kept only in memory, because somebody else has the project or writing is not allowed."""
        return self._store is not None and self._store.project.is_read_only

    def refuses(self) -> bool:
        """Whether the project is read-only, so that a change would be lost; shows a message."""
        if self.is_read_only:
            owner = self.lock_owner
            self._say(f"Read only: {owner} has the project open" if owner else "The project is open read only")
        return self.is_read_only

    @property
    def refusal(self) -> str | None:
        """Why nothing may be written into the shot's own folder, and what to do; None where writing is allowed."""
        path, owner = self.path, self.lock_owner
        if path is None or not self.is_read_only:
            return None
        if owner is None:
            return f"{path.name}: the project may not be written; make it writable, or choose another folder"
        return f"{path.name}: {owner} has the project open; close it there, or choose another folder"

    @property
    def trouble(self) -> str | None:
        """Why steps are not stored in a project file; None where they are, or where no project was wanted yet."""
        return self._refusal if self._store is None else self._store.trouble

    def heartbeat(self, state: State) -> None:
        """Renew the lock and repeat failed writes; called every 20 seconds."""
        if self._store is not None:
            self._store.heartbeat(state)

    def flush(self) -> None:
        """Wait until every step is in the file, or has failed to be written."""
        if self._store is not None:
            self._store.flush()

    # --- the plate

    def join(self, plate: PlateFacts, out: Path | None) -> None:
        """Record the place of the plate, which is open now. Raises: PlateError where it is not the project's plate."""
        project = self._idle()
        known = project.note("plate")
        if known is not None:
            _check_plate(plate, known, project)
        self._awaits_plate = False
        if project.is_read_only:
            return
        project.set_note("plate", {name: getattr(plate, name) for name in _PLATE_FIELDS})
        if out is not None:
            project.set_note("out", str(out))

    def knows(self, plate: PlateFacts) -> bool:
        """Whether a plate is the project's, by its size and the content of a few files."""
        if self._store is None:
            return False
        project = self._idle()
        known, remembered = project.note("plate"), plate_files.compared_facts(project.files(), plate.frames)
        if known is None or not remembered:
            return False
        is_sized = (plate.width, plate.height) == (known["width"], known["height"])
        return is_sized and plate_files.compare(remembered, frame_paths(plate, tuple(remembered))).is_same_plate

    def take_witnesses(self, found: Mapping[int, plate_files.FileFacts]) -> None:
        """Store facts of a few of the plate's files (`look_at_witnesses`), to recognise it later."""
        if found:
            self._write_note(lambda project: project.set_files(found))

    # --- notes

    def store_run(self, run: RunRecord) -> None:
        """Store the run record of the shot."""
        self._write_note(lambda project: project.set_note("run", run_record.to_json(run)))

    def store_face_run(self, face: str, run: RunRecord) -> None:
        """Store the run record of a face that is set aside."""
        self._write_note(lambda project: project.set_note(f"run {face}", run_record.to_json(run)))

    def face_run(self, face: str) -> RunRecord:
        """The run record that a face had when it was set aside."""
        known = None if self._store is None else self._idle().note(f"run {face}")
        return RunRecord() if known is None else run_record.from_json(known)

    def store_taught(self, run: RunRecord, taught: RunRecord, moved: Mapping[str, Sequence[int]]) -> None:
        """Store Teach's expected errors, and the frames of each shape that it moved."""
        note = {"of": _errors_digest(run), "run": run_record.to_json(taught), "moved": dict(moved)}
        self._write_note(lambda project: project.set_note("taught run", note))

    def taught_of(self, run: RunRecord) -> tuple[RunRecord, dict[str, list[int]]] | None:
        """Teach's expected errors and moved frames for a run; None where there are none, or they belong to another
        run."""
        note = None if self._store is None else self._idle().note("taught run")
        try:
            if note is None or note["of"] != _errors_digest(run):
                return None
            moved = {str(name): [int(frame) for frame in frames] for name, frames in note["moved"].items()}
            return run_record.from_json(note["run"]), moved
        except (AttributeError, KeyError, TypeError, ValueError, ProjectError):
            return None  # the run's own errors are shown

    def store_shapes(self, path: Path | None) -> None:
        """Store the identity of our shapes file, to recognise a file that another run has written since."""
        if path is not None:
            self._write_note(lambda project: project.set_note("shapes", _shapes_digest(path)))

    def store_painted(self, painted: Mapping[int, str]) -> None:
        """Store the fingerprints of the frames whose clean plates are on disk."""
        self._write_note(lambda project: project.set_note("painted", {str(f): each for f, each in painted.items()}))

    def store_learnt(self, predicted: RotoDocument) -> None:
        """Store the predictions of the pack that was trained on the shot; they replace the models' predictions."""
        digest = _document_digest(predicted)
        self._write_note(lambda project: project.set_note("learnt", digest))

    def is_learnt(self, predicted: RotoDocument) -> bool:
        """Whether the current predictions come from a pack that was trained on this shot."""
        known = None if self._store is None else self._idle().note("learnt")
        return known is not None and known == _document_digest(predicted)

    def store_view(self, view: Mapping[str, Any]) -> None:
        """Store the view of the shot as JSON values, if it has changed."""
        if view and view != self._view and not self._awaits_plate:
            self._view = dict(view)
            self._write_note(lambda project: project.set_note("view", dict(view)))

    def is_ours(self, path: Path) -> bool:
        """Whether a shapes file on disk is the one that was recorded last."""
        known = self._idle().note("shapes")
        return known is not None and known == _shapes_digest(path)

    def _write_note(self, write: Callable[[Project], None]) -> None:
        if self._store is None or self._store.project.is_read_only:
            return
        try:
            write(self._idle())
        except ProjectError as error:
            self._say(f"Not saved: {error}")

    def _idle(self) -> Project:
        """The project once the store's thread has stopped writing into it."""
        assert self._store is not None
        self._store.flush()
        return self._store.project


def is_project(path: str) -> bool:
    """Whether a path is a project file."""
    return path.lower().endswith(SUFFIX)


def default_project(plate: PlateFacts, out: Path) -> Path:
    """The default path of a plate's project, in the output folder of its runs."""
    return out / f"{plate.name or 'plate'}{SUFFIX}"


def _check_plate(plate: PlateFacts, known: Mapping[str, Any], project: Project) -> None:
    """Raise PlateError where a plate is not the project's."""
    size = (known["width"], known["height"])
    if (plate.width, plate.height) != size:
        raise PlateError(
            f"{plate.name}: is {plate.width} x {plate.height}, the project was made on {known['name']} of "
            f"{size[0]} x {size[1]}; choose that plate, or begin a new project"
        )
    remembered = plate_files.compared_facts(project.files(), plate.frames)
    match = plate_files.compare(remembered, frame_paths(plate, tuple(remembered)))
    if match.is_other_plate:
        raise PlateError(
            f"{plate.name}: holds other pictures than the project's {known['name']} (compared frames "
            f"{summarise(match.other)}); choose that plate, or begin a new project"
        )


def look_at_witnesses(plate: PlateFacts) -> dict[int, plate_files.FileFacts]:
    """Facts of a few of the plate's files. It reads them whole: call it outside the GUI thread."""
    return plate_files.look(frame_paths(plate, plate_files.witnesses(plate.frames)))


def _document_digest(document: RotoDocument) -> str:
    return hashlib.sha1(documents.dumps(document).encode(), usedforsecurity=False).hexdigest()


def _shapes_digest(path: Path) -> str | None:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return None


def _read_notes(project: Project) -> tuple[RunRecord, dict[int, str], Mapping[str, Any], PlatePlace]:
    """A note of a project. Raises ProjectError where its value is of a wrong type."""
    plate, out, run, painted, view = (project.note(name) for name in ("plate", "out", "run", "painted", "view"))
    record = RunRecord() if run is None else run_record.from_json(run)
    try:
        place = PlatePlace((plate or {}).get("source"), (plate or {}).get("colourspace"), Path(out) if out else None)
        return record, {int(frame): str(each) for frame, each in (painted or {}).items()}, dict(view or {}), place
    except (TypeError, ValueError, AttributeError) as error:
        raise ProjectError(f"{project.path}: what it keeps of its plate is damaged ({error}); restore it") from error


def _errors_digest(run: RunRecord) -> str:
    """A hash by which the expected errors of two runs are distinguished."""
    return hashlib.sha256(json.dumps(run_record.to_json(run)["errors"], sort_keys=True).encode()).hexdigest()
