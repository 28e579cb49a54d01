"""The second pass of a run: mattes and clean plates of frames that are settled, side by side, each once.

A frame that an earlier process has painted stays where all that decided it still holds and its files stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rotopaint_ai.crops import Crop
from rotopaint_ai.errors import PlateError
from rotopaint_ai.jobs import Cancel, Event, Sink
from rotopaint_ai.pipeline.executor import Eta, Executor, KeptByFrame, SettledFrames, Snapshot, Times, keep_nothing
from rotopaint_ai.pipeline.overrides import OverridingProcessor
from rotopaint_ai.pipeline.pictures import Names
from rotopaint_ai.pipeline.process_frame import AIR_PX, Settled, face_area
from rotopaint_ai.pipeline.record_store import FrameRecord, RunState
from rotopaint_ai.pipeline.render_frame import SURROUND_PX
from rotopaint_ai.pipeline.run_events import frame_event
from rotopaint_ai.pipeline.tracking_pass import TrackedShot
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area


class _Settled:
    """The line's tracker where all is known: each frame with what is settled of it, and the times of its tracking."""

    def __init__(self, at: Callable[[int], FrameRecord]) -> None:
        self._at = at

    def push(self, frame: Frame, ms: Times) -> SettledFrames:
        """The frame as it is settled."""
        record = self._at(frame.number)
        for stage, time in record.ms.items():
            ms[stage] = ms.get(stage, 0.0) + time
        return ((frame.number, Settled.of(record)),)

    def skip(self, frame: int) -> SettledFrames:
        """A frame that cannot be read any more."""
        return ()

    @property
    def reach(self) -> None:
        """A frame is finished at once."""

    @property
    def room(self) -> float:
        """None is needed."""
        return 0.0

    def flush(self) -> SettledFrames:
        """Nothing is left."""
        return ()


def paint_frames(
    shot: TrackedShot,
    processor: OverridingProcessor,
    state: RunState,
    frames: Sequence[int],
    threads: int,
    sink: Sink,
    cancel: Cancel,
    *,
    after_s: float = 0.0,
) -> None:
    """Paint those of a tracked shot's frames that `state` does not have as they are settled now.

    `after_s`: how long what follows the last frame is expected to take. Raises CancelledError; OSError where the disk
    refuses.
    """
    processor = replace(processor, inner=replace(processor.inner, pictured=shot.pictured))
    _forget_others(shot, processor, state)
    for frame in frames:
        if frame not in state.finished and (record := shot.records.at(frame)).crop is None:  # it could not be read
            state.add(replace(record, work=processor.work.digest(frame)))
    known = KeptByFrame(shot.records.at, kept=4 * threads)

    def read(frame: int, near: Area | None) -> Frame:
        record = known.at(frame)
        assert record.crop is not None
        area = face_area(Crop(*record.crop)) if frame in shot.pictured else _seam_area(record, processor)
        got = processor.read(frame, area, record.source)
        if record.source is not None and got.fingerprint != record.source.fingerprint:
            raise PlateError(f"{record.source.path}: changed on disk since its face was followed; --resume starts anew")
        return got

    line = Executor(read, processor.finish, processor.fail, lambda frame: False, keep_nothing, threads)
    eta = Eta(total=len(frames), done=len(state.finished), after_s=after_s)
    rest = [frame for frame in frames if frame not in state.finished]
    for record in line.run(rest, Snapshot(0, _Settled(known.at)), cancel):
        state.add(record)
        sink(frame_event(record))
        sink(Event("progress", {"task": "paint", **eta.step()}))


def _seam_area(record: FrameRecord, processor: OverridingProcessor) -> Area | None:
    """Where a fill will look at a frame: its seams, with air around them; None where it shows none."""
    sheet = processor.inner.sheet
    settled = processor.work.respected(record.frame, Settled.of(record), sheet)
    specs = [spec for spec in sheet.shapes if spec.role == "seam" and spec.name in settled.shapes]
    if not specs:
        return None
    points = [(row[0], row[1]) for spec in specs for row in settled.shapes[spec.name]]
    x, y = zip(*points)
    air = max(settled.widths.get(spec.name, 0.0) / 2 + spec.feather_px for spec in specs) + SURROUND_PX + AIR_PX
    return Area(min(x), min(y), max(x), max(y)).grown(air)


def _forget_others(shot: TrackedShot, processor: OverridingProcessor, state: RunState) -> None:
    """Forget painted frames that are settled otherwise now, show other work of people, or whose files are gone."""
    out, pictured = processor.inner.out, shot.pictured
    standing = {
        record.frame
        for record in state.records()
        if record.frame in shot.records.frames
        and _is_as_settled(record, shot.records.at(record.frame), processor)
        and record.work == processor.work.digest(record.frame)
        and record.outputs_stand(out)
        and (record.frame not in pictured or _has_picture(out, record.frame))
    }
    for frame in set(state.finished) - standing:
        del state.finished[frame]


def _is_as_settled(painted: FrameRecord, now: FrameRecord, processor: OverridingProcessor) -> bool:
    """Whether a frame was painted by what is settled of it now; keys elsewhere in the shot may have moved its ends."""
    if now.crop is None:
        return painted.crop is None
    if painted.status == "failed":
        return False
    own = processor.work.respected(now.frame, Settled.of(now), processor.inner.sheet)
    now_settled = own.shapes, own.errors, own.landmarks, own.widths
    return (painted.shapes, painted.errors, painted.landmarks or (), painted.widths) == now_settled


def _has_picture(out: Path, frame: int) -> bool:
    return (out / Names.of(frame).face).exists()
