"""Keyboard actions on landmarks while their tool is chosen; each returns whether it did anything."""

from __future__ import annotations

from rotopaint_ui.tools.edit_context import EditContext


def nudge_landmarks(context: EditContext, dx: float, dy: float) -> bool:
    """Move the selected landmarks by plate pixels, with their shapes and the hold. Repeated presses are one step."""
    session, row = context.session, context.landmark_row
    chosen = frozenset(index for index in context.landmarks if index < len(row) and row[index] is not None)
    if not chosen:
        session.say("No landmark is selected: click one, or PgDown for the next")
        return False
    if not context.is_free:
        return False
    label = "nudge landmark" if len(chosen) == 1 else "nudge landmarks"
    x, y = context.nudge(label, dx, dy, (session.frame, chosen))
    before = session.edits.before_gesture.document
    marks = before.landmarks.keys.get(session.frame, ()) if before is not None else ()
    places = {k: (mark.x + x, mark.y + y) for k, mark in enumerate(marks) if k in chosen and mark is not None}
    session.corrections.move_landmarks(session.frame, places)
    return True


def select_all_landmarks(context: EditContext) -> bool:
    """Select all landmarks that are visible at this frame."""
    context.landmarks = frozenset(index for index, mark in enumerate(context.landmark_row) if mark is not None)
    return bool(context.landmarks)


def select_no_landmarks(context: EditContext) -> bool:
    """Deselect all landmarks."""
    context.landmarks = frozenset()
    return True


def select_next_landmark(context: EditContext, step: int) -> bool:
    """Select the next landmark of the sheet that is visible at this frame, and show its name."""
    seen = [index for index, mark in enumerate(context.landmark_row) if mark is not None]
    document = context.session.document
    if not seen or document is None:
        return False
    own = next(iter(context.landmarks)) if len(context.landmarks) == 1 else None
    index = seen[(seen.index(own) + step) % len(seen)] if own in seen else seen[0 if step > 0 else -1]
    context.landmarks = frozenset({index})
    context.session.say(f"Landmark {document.landmarks.names[index]}")
    return True
