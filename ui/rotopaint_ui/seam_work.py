"""Seams on screen: the painted frame as a preview, and the clean plate made again where it no longer fits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from rotopaint_ai.project.values import SeamSettings
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui import painted
from rotopaint_ui.record import RunRecord
from rotopaint_ui.session import Session


class SeamWork:
    """Keeps what the clean plate was painted from, and finds the frames that are stale."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._painted: dict[int, str] = {}
        self._job: dict[int, str] = {}
        self._found: tuple[object, object, list[int]] | None = None

    @property
    def n_frames(self) -> int:
        """Frames that have been painted."""
        return len(self._painted)

    def stale(self) -> list[int]:
        """Frames to be painted again; found once for each state."""
        state, plate = self._session.state, self._session.plate
        if plate is None or state.document is None or not any(s.role == "seam" for s in state.document.shapes):
            return []
        if self._found is None or self._found[0] is not state or self._found[1] is not self._painted:
            frames = [frame for frame in plate.frames if _is_keyed(state.document, frame)]
            self._found = (state, self._painted, painted.stale(state, frames, self._painted))
        return self._found[2]

    def look(self, out: Path | None) -> None:
        """Another shot, or an earlier session's clean plate: what is noted, else what the models said."""
        noted = painted.read(out) if out is not None else None
        predicted = self._session.state.predicted
        if noted is None and predicted is not None and out is not None and (out / "clean").is_dir():
            noted = self._of_run(predicted, self._session.run, {})
        self._painted = noted or {}

    def take_run(self, document: RotoDocument, run: RunRecord, out: Path) -> None:
        """A run has painted every frame from these shapes; settings made by hand reach it by the project file."""
        seams = self._session.state.seams if self._session.project_path is not None else {}
        self._painted = self._of_run(document, run, seams)
        painted.write(out, self._painted)

    def begin(self, frames: Collection[int]) -> None:
        """A job paints frames from the shapes as they are now."""
        state = self._session.state
        assert state.document is not None
        self._job = painted.prints(state.document, state.seams, frames, state.strokes)

    def take_frame(self, frame: int) -> None:
        """The job has painted a frame."""
        if frame in self._job:
            self._painted = {**self._painted, frame: self._job[frame]}

    def end(self, out: Path) -> None:
        """The job has ended, whole or not."""
        self._job = {}
        painted.write(out, self._painted)

    def _of_run(self, document: RotoDocument, run: RunRecord, seams: Mapping[str, SeamSettings]) -> dict[int, str]:
        plate = self._session.plate
        frames = [f for f in plate.frames if f not in run.failed] if plate is not None else []
        return painted.prints(document, seams, [frame for frame in frames if _is_keyed(document, frame)])


def _is_keyed(document: RotoDocument, frame: int) -> bool:
    return document.first_frame <= frame <= document.last_frame
