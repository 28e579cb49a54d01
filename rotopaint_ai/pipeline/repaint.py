"""`clean --project`: what a project says is to be painted, and its notes of which frames show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rotopaint_ai.errors import UsageError
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.jobs import Event, Sink
from rotopaint_ai.pipeline.artist import ArtistWork, work_of
from rotopaint_ai.pipeline.keep import OpenProject
from rotopaint_ai.project import Project, State
from rotopaint_ai.project.fingerprints import NOTE, PaintFingerprints


@dataclass(frozen=True, slots=True)
class Repaint:
    """A project's shapes, seam settings and touch-up; `notes` is None where the project is only read."""

    state: State
    work: ArtistWork
    notes: OpenProject | None
    out: Path

    def sink(self, sink: Sink, frames: str | None) -> Sink:
        """A sink that also tells the project that somebody is here, and when painting these frames, or all, begins."""
        inner = sink if self.notes is None else self.notes.sink(sink)

        def tell(event: Event) -> None:
            if event.kind == "started":  # not before: a job that is refused leaves every frame as it was
                self.begin(frames)
            inner(event)

        return tell

    def begin(self, frames: str | None) -> None:
        """These frames, or all, are about to be painted: until they are, nothing is known of them."""
        if self._is_ours():
            gone = _frames(frames)
            known = self._known()
            self._note({f: each for f, each in known.items() if gone is not None and f not in gone})

    def end(self, done: Sequence[int]) -> None:
        """These frames show what the project says."""
        if self._is_ours():
            self._note({**self._known(), **PaintFingerprints().of(self.state, done)})

    def _is_ours(self) -> bool:
        """Whether the project takes note of what lies in this folder."""
        if self.notes is None or (noted := self.notes.project.note("out")) is None:
            return False
        folder = self.notes.project.path.absolute().parent  # older projects may name theirs relative to some folder
        return (folder / Path(noted)).resolve() == self.out.resolve()

    def _known(self) -> dict[int, str]:
        assert self.notes is not None
        return {int(frame): each for frame, each in (self.notes.project.note(NOTE) or {}).items()}

    def _note(self, painted: dict[int, str]) -> None:
        assert self.notes is not None
        self.notes.project.set_note(NOTE, {str(frame): each for frame, each in sorted(painted.items())})


@contextmanager
def repainting(path: Path, out: Path, *, leave: bool) -> Iterator[Repaint]:
    """A project to paint from; `leave`: it is only read, somebody else takes note of what was painted.

    Raises: LockedError where somebody works on it, ProjectError, UsageError where nothing was run on its shot yet.
    """
    project = None if leave else OpenProject(path)
    try:
        state = _state_of(path) if project is None else project.project.load().state
        if state.document is None:
            raise UsageError(f"{path.name}: nothing was run on this shot yet; rotopaint run --project makes its shapes")
        yield Repaint(state, work_of(state), project, out)
    finally:
        if project is not None:
            project.project.close()


def _state_of(path: Path) -> State:
    project = Project.open(path, write=False)
    try:
        return project.load().state
    finally:
        project.close()


def _frames(text: str | None) -> set[int] | None:
    parts: Iterable[str] = () if text is None else text.split(",")
    return None if text is None else {frame for part in parts for frame in FrameRange.parse(part)}
