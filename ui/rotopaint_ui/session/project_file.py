"""A session's project file: opened, begun, relinked to a plate that was moved, closed. No Qt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotopaint_ai.errors import PlateError, ProjectError
from rotopaint_ai.frames import summarise
from rotopaint_ai.project import SUFFIX, Project, State, files, run_record
from rotopaint_ui.session.project_store import ProjectStore
from rotopaint_ui.session.shot import PlateFacts, Results, frame_paths

if TYPE_CHECKING:
    from rotopaint_ui.session.session import Session

_PLATE_FIELDS = ("source", "name", "width", "height", "pixel_aspect", "fps", "colourspace")


@dataclass(frozen=True, slots=True)
class PlatePlace:
    """Where a project's plate was when it was last open, and where its runs wrote."""

    source: str | None
    colourspace: str | None
    out: Path | None


class ProjectFile:
    """The project behind a session, if there is one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.store: ProjectStore | None = None
        self._awaits_plate = False

    @property
    def path(self) -> Path | None:
        """The project file that is open."""
        return None if self.store is None else self.store.path

    def open(self, path: Path, *, keeps_plate: bool = False) -> PlatePlace:
        """Open a project: its state is shown at once, its plate is for the caller to open. Raises ProjectError.

        `keeps_plate`: the plate that is open is the project's.
        """
        if self.path is not None and self.path.resolve() == path.resolve():
            self.close()  # else it would be found locked, by ourselves
        project = Project.open(path)
        try:
            store = ProjectStore(project, self._session.say)
            state, behind, ahead = store.load()
            plate, out, run, painted = (project.note(name) for name in ("plate", "out", "run", "painted"))
        except BaseException:
            project.close()
            raise
        self.close()
        if not keeps_plate:
            self._session.leave_plate(Path(out) if out else None)
        prints = {int(frame): each for frame, each in (painted or {}).items()}
        self._session.show_project(store, state, behind, ahead, prints)
        self.store, self._awaits_plate = store, True
        self._session.run = run_record.RunRecord() if run is None else run_record.from_json(run)
        if project.left_behind is not None:
            steps = f"{len(behind)} steps" if len(behind) != 1 else "1 step"
            self._session.say(f"Recovered: the last session ended without closing; {steps} can be undone")
        return PlatePlace((plate or {}).get("source"), (plate or {}).get("colourspace"), Path(out) if out else None)

    def start(self, path: Path, results: Results | None) -> None:
        """Keep the open shot in a project file: the one that is there, else a new one. Raises ProjectError."""
        session = self._session
        plate, out, shown, run = session.plate, session.out, session.state, session.run
        if path.exists():
            self.open(path, keeps_plate=True)
            self._awaits_plate = False
            if plate is not None:
                self.join(plate, out)
            if session.run == run_record.RunRecord():  # else the project knows more than the last run
                session.run = run
            self._take_newer(shown, results)
            return
        self.close()
        store = ProjectStore(Project.create(path, shown), session.say)
        state, behind, ahead = store.load()
        painted = session.painting.painted
        session.show_project(store, state, behind, ahead, painted)
        self.store = store
        self.keep_painted(painted)
        if plate is not None:
            self.join(plate, out)

    def join(self, plate: PlateFacts, out: Path | None) -> None:
        """The plate is open: note where it is. Raises PlateError where it is not the project's plate."""
        assert self.store is not None
        project = self._idle()
        known = project.note("plate")
        if known is not None:
            _check(plate, known, project)
        self._awaits_plate = False
        if project.is_read_only:
            return
        project.set_note("plate", {name: getattr(plate, name) for name in _PLATE_FIELDS})
        if out is not None:
            project.set_note("out", str(out))

    def knows(self, plate: PlateFacts) -> bool:
        """Whether the project remembers a plate's files, by size and content."""
        if self.store is None:
            return False
        project = self._idle()
        known, remembered = project.note("plate"), files.chosen(project.files(), plate.frames)
        if known is None or not remembered:
            return False
        is_sized = (plate.width, plate.height) == (known["width"], known["height"])
        return is_sized and files.compare(remembered, frame_paths(plate, tuple(remembered))).is_same_plate

    @property
    def awaits_plate(self) -> bool:
        """Whether a project is open whose plate is not."""
        return self._awaits_plate

    def keep_run(self) -> None:
        """Note what the last run said of its frames, and which shapes file it is that we know."""
        if self.store is None or self.store.project.is_read_only:
            return
        try:
            self._idle().set_note("run", run_record.to_json(self._session.run))
            self.keep_shapes()
        except ProjectError as error:
            self._session.say(f"Not saved: {error}")

    def keep_shapes(self) -> None:
        """Note which shapes file on disk is ours, to tell one that somebody else's run has written since."""
        path = self._session.shapes_path
        if self.store is not None and not self.store.project.is_read_only and path is not None:
            try:
                self._idle().set_note("shapes", _digest(path))
            except ProjectError as error:
                self._session.say(f"Not saved: {error}")

    def keep_painted(self, painted: Mapping[int, str]) -> None:
        """Keep the prints of the frames whose clean plates are on disk."""
        if self.store is not None and not self.store.project.is_read_only:
            try:
                self._idle().set_note("painted", {str(frame): each for frame, each in painted.items()})
            except ProjectError as error:
                self._session.say(f"Not saved: {error}")

    def take_witnesses(self, found: Mapping[int, files.Facts]) -> None:
        """Keep how a few of the plate's files look (`files.look`)."""
        if self.store is not None and not self.store.project.is_read_only and found:
            try:
                self._idle().set_files(found)
            except ProjectError as error:
                self._session.say(f"Not saved: {error}")

    def close(self) -> None:
        """Write what is left and let go of the file."""
        store, self.store, self._awaits_plate = self.store, None, False
        if store is not None:
            store.close(self._session.state)

    def _idle(self) -> Project:
        """The project, when nothing is being written into it by the store's thread."""
        assert self.store is not None
        self.store.flush()
        return self.store.project

    def _take_newer(self, shown: State, results: Results | None) -> None:
        """Shapes that a run outside the panel has written since the project was last open come in as one step."""
        assert self.store is not None
        path = self._session.shapes_path
        if path is None or results is None or results.document is None:
            return
        known = self._idle().note("shapes")
        if known is None or known != _digest(path):
            if results.document != self._session.state.document:
                self._session.take_run(results)
            self.keep_run()


def is_project(path: str) -> bool:
    """Whether a path is a project file."""
    return path.lower().endswith(SUFFIX)


def default_project(plate: PlateFacts, out: Path) -> Path:
    """Where the project of a plate is kept when nobody says: in the folder where its runs write."""
    return out / f"{plate.name or 'plate'}{SUFFIX}"


def _check(plate: PlateFacts, known: Mapping[str, Any], project: Project) -> None:
    """Raises PlateError where a plate is another one than the project's."""
    size = (known["width"], known["height"])
    if (plate.width, plate.height) != size:
        raise PlateError(
            f"{plate.name}: is {plate.width} x {plate.height}, the project was made on {known['name']} of "
            f"{size[0]} x {size[1]}; choose that plate, or begin a new project"
        )
    remembered = files.chosen(project.files(), plate.frames)
    match = files.compare(remembered, frame_paths(plate, tuple(remembered)))
    if match.is_other_plate:
        raise PlateError(
            f"{plate.name}: holds other pictures than the project's {known['name']} (compared frames "
            f"{summarise(match.other)}); choose that plate, or begin a new project"
        )


def changed_frames(plate: PlateFacts, project: Project) -> tuple[int, ...]:
    """Of the frames that the project remembers, those whose file has another content now."""
    remembered = files.chosen(project.files(), plate.frames)
    return files.compare(remembered, frame_paths(plate, tuple(remembered))).other


def look_at_witnesses(plate: PlateFacts) -> dict[int, files.Facts]:
    """How a few of the plate's files look; reads them whole, so call it off the screen's thread."""
    return files.look(frame_paths(plate, files.witnesses(plate.frames)))


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return None
