"""The clean-plate frames on disk: the fingerprint of each, and which are out of date. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from rotopaint_ai.project.fingerprints import PaintFingerprints
from rotopaint_ai.project.state import State


class Painting:
    """Keeps the fingerprint of every painted frame; `store` writes them into the project file, if there is one.

    A job that paints frames removes their fingerprints first and adds each when the frame is on disk, so that an
    unfinished frame never counts as up to date.
    """

    def __init__(self, store: Callable[[Mapping[int, str]], None]) -> None:
        self._store = store
        self._fingerprints = PaintFingerprints()
        self._painted: dict[int, str] = {}
        self._job: dict[int, str] = {}
        self._found: tuple[State, dict[int, str], Collection[int], list[int]] | None = None

    @property
    def painted_fingerprints(self) -> Mapping[int, str]:
        """The fingerprints of the frames on disk."""
        return self._painted

    def stale(self, state: State, frames: Collection[int]) -> list[int]:
        """Frames of the plate whose paint is out of date or missing."""
        found = self._found
        if found is None or any(a is not b for a, b in zip(found, (state, self._painted, frames))):
            found = state, self._painted, frames, self._fingerprints.stale(state, frames, self._painted)
            self._found = found
        return found[3]

    def show(self, painted: Mapping[int, str]) -> None:
        """Set the known fingerprints of another shot's clean plate."""
        self._painted, self._job = dict(painted), {}

    def note(self, frames: Iterable[int], state: State) -> None:
        """Record that these frames on disk were painted from a state."""
        self._painted = {**self._painted, **self._fingerprints.of(state, frames)}
        self._store(self._painted)

    def begin(self, frames: Collection[int], state: State) -> None:
        """Mark frames that a job will paint as unknown until the job has painted them."""
        self._job = self._fingerprints.of(state, frames)
        self.forget(frames)

    def forget(self, frames: Collection[int]) -> None:
        """Forget the fingerprints of these frames."""
        gone = set(frames)
        self._painted = {frame: each for frame, each in self._painted.items() if frame not in gone}
        self._store(self._painted)

    def suspend(self) -> None:
        """Mark all frames as unknown at the start of a run, because it is not known yet which frames it will paint."""
        self._store({})

    def take_frame(self, frame: int) -> None:
        """Record a frame that the job has written."""
        if frame in self._job:
            self._painted = {**self._painted, frame: self._job[frame]}

    def end(self) -> None:
        """End the job, finished or not."""
        self._job = {}
        self._store(self._painted)
