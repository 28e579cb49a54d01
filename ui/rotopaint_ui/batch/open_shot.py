"""The open shot as an entry of the queue. No Qt."""

from __future__ import annotations

from rotopaint_ai.errors import UsageError
from rotopaint_ui.batch.queue import QueuedShot
from rotopaint_ui.engine.command_lines import frames_argument, run_frames
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import shot_name


def queue_open_shot(session: ShotSession, choice: PlateChoice | None, pack: str | None) -> QueuedShot:
    """The open shot from In to Out, with its crop boxes and this pack, as an entry of the queue.

    Raises: UsageError without a plate, and for frames that cannot be run.
    """
    if session.plate is None or choice is None:
        raise UsageError("Open a plate first")
    return QueuedShot(
        shot_name(session.plate) or "plate",
        session.plate.source,
        str(session.out),
        tuple(box.word(frame) for frame, box in sorted(session.state.crops.items())) or ("auto",),
        pack,
        frames_argument(session.plate, choice, run_frames(session, choice)),
        choice.colourspace,
    )
