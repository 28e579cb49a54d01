"""Keyboard actions on the crop box while its tool is chosen; each returns whether it did anything."""

from __future__ import annotations

from dataclasses import replace

from rotopaint_ui.tools.crop import crop_at
from rotopaint_ui.tools.edit_context import EditContext


def nudge_crop(context: EditContext, dx: float, dy: float) -> bool:
    """Move the box at this frame by plate pixels. Repeated presses are one step."""
    session = context.session
    if crop_at(session) is None:
        session.say("No crop box is here to be moved: drag one, or Shift+C finds the face")
        return False
    if not context.is_open:
        return False
    x, y = context.nudge("nudge crop box", dx, dy, (session.frame, "crop"))
    before = session.edits.before_gesture
    box = crop_at(session, before.crops)
    assert box is not None
    moved = replace(box, x=box.x + x, y=box.y + y)
    session.edits.preview(replace(before, crops=dict(sorted({**before.crops, session.frame: moved}.items()))))
    return True


def delete_crop(context: EditContext) -> bool:
    """Delete the box drawn at this frame; the crop is interpolated between the others."""
    session = context.session
    if session.frame not in session.state.crops:
        session.say("No crop box was drawn at this frame" + (": it comes from another" if crop_at(session) else ""))
        return False
    if not context.is_open:
        return False
    left = {frame: box for frame, box in session.state.crops.items() if frame != session.frame}
    session.edits.push("delete crop box", replace(session.state, crops=left))
    return True
