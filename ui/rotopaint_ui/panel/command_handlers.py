"""What each command of the table does to a panel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rotopaint_ui.panel.actions import Handler
from rotopaint_ui.services.review_loop import Visits
from rotopaint_ui.session.editing import LET_GO
from rotopaint_ui.session.shot import range_text
from rotopaint_ui.settings.commands import Command
from rotopaint_ui.widgets import dialogs

_OF_A_FACE = re.compile(r"the largest of \d+ faces|sure by \d+ ?%")  # what an artist wants to know of the choice

if TYPE_CHECKING:
    from rotopaint_ai.project.values import Box
    from rotopaint_ui.panel.panel import Panel


def handler_of(panel: Panel, command: Command) -> Handler:
    """The deed of a command; see `commands` for the meaning of names."""
    kind, _, name = command.name.partition(".")
    if not name:
        return _handlers(panel)[kind]
    found: dict[str, Handler] = {
        "tool": lambda: panel.take_tool(name),
        "overlay": lambda: change_overlays(panel),
        "edit": lambda: _edit(panel, command, name),
        "canvas": lambda: getattr(panel.canvas, name)(),
    }
    return found[kind]


def _handlers(panel: Panel) -> Mapping[str, Handler]:
    session, review = panel.session, panel.review
    return {
        "open": panel.open_chosen,
        "open_project": lambda: dialogs.ask_for_file(panel, "Open a project or shapes", panel.open_path),
        "relink": lambda: dialogs.ask_for_file(panel, "Where the plate lies now", panel.opening.relink),
        "save": panel.autosave.save,
        "export": panel.export,
        "diagnostics": panel.copy_diagnostics,
        "rename": lambda: _rename(panel),
        "undo": lambda: _told(panel, "Undone", session.undo()),
        "redo": lambda: _told(panel, "Redone", session.redo()),
        "leave": partial(_leave, panel),
        "wipe": panel.show_clean,
        "flip": panel.show_clean,
        "overlays": partial(change_overlays, panel),
        "play": partial(_play, panel),
        "next": lambda: session.go_to(session.frame + 1),
        "previous": lambda: session.go_to(session.frame - 1),
        "next_key": lambda: session.step_key(1),
        "previous_key": lambda: session.step_key(-1),
        "first": lambda: _go_to_end(panel, 0),
        "last": lambda: _go_to_end(panel, -1),
        "range_in": lambda: _set_range(panel, session.frame, None),
        "range_out": lambda: _set_range(panel, None, session.frame),
        "range_all": lambda: _set_range(panel, None, None),
        "worst": lambda: _worst(panel, 1),
        "worst_back": lambda: _worst(panel, -1),
        "accept": lambda: review.mark("accepted"),
        "accept_next": review.accept_and_go_on,
        "needs_work": lambda: review.mark("needs work"),
        "spread": review.spread,
        "spread_shorter": lambda: panel.lengthen_reach(-1),
        "spread_longer": lambda: panel.lengthen_reach(1),
        "refit": review.refit,
        "run": panel.run,
        "run_all": panel.run_all,
        "find_face": lambda: _find_face(panel),
        "clear_touchup": lambda: _clear_touchup(panel),
        "preview_seam": panel.preview_seam,
        "make_clean": panel.make_clean,
        "make_all": panel.make_all,
    }


def change_overlays(panel: Panel) -> None:
    """Draw over the plate what is switched on, or nothing where everything is switched off."""
    everything = panel.commands["overlays"].isChecked()
    rows = {name[8:]: made for name, made in panel.commands.items() if name.startswith("overlay.")}
    overlay = type(panel.canvas.overlay)
    panel.canvas.overlay = overlay(**{name: everything and made.isChecked() for name, made in rows.items()})
    panel.canvas.update()


def _edit(panel: Panel, command: Command, name: str) -> None:
    panel.canvas.edit(name)
    if command.checkable:
        panel.commands[command.name].setChecked(panel.canvas.is_on(name))


def _worst(panel: Panel, direction: int) -> None:
    say, review = panel.status.say, panel.review
    if review.step(direction):
        say(panel.timeline.tip(panel.session.frame).replace("\n", ", "))
    elif review.visits is not Visits.WORST:
        say(f"No frame is left: {review.visits.value}")
    elif panel.session.run.errors:
        say("No frame is left to check: all are accepted or keyed by hand")
    else:
        say("Press Run first")


def _rename(panel: Panel) -> None:
    if panel.session.shape is None:
        panel.status.say("Select the shape to rename, in the viewer or in Shapes")
        return
    panel.inspector.setCurrentWidget(panel.inspector.shapes)
    panel.inspector.shapes.begin_rename()


def _find_face(panel: Panel) -> None:
    """Ask the pack where the face is on this frame; its box is a step like one that was drawn."""
    session, say = panel.session, panel.status.say
    plate, frame, asked = session.plate, session.frame, session.state

    def take(box: Box | None, note: str) -> None:
        if box is None:
            return  # the engine has said why
        if session.plate is not plate or session.state is not asked:
            say("The shot was changed meanwhile; ask again")
            return
        session.act("crop box", replace(asked, crops=dict(sorted({**asked.crops, frame: box}.items()))))
        told = ", ".join(_OF_A_FACE.findall(note))
        say(f"The face on {frame}{': ' + told if told else ''}. Drag the box where it is wrong, then Run")

    if plate is None:
        say("Open a plate first", "trouble")
        return
    if session.refuses():
        return
    say(f"Looking for the face on {frame}")
    panel.live.load_pack(panel.top.chosen_pack)
    panel.live.propose_crop(frame, take)


def _clear_touchup(panel: Panel) -> None:
    if panel.session.refuses():
        return
    state, held = panel.session.state, set(panel.session.held_frames())
    left = {frame: row for frame, row in state.strokes.items() if frame not in held}
    panel.session.act("clear touch-up", replace(state, strokes=left))


def _go_to_end(panel: Panel, index: int) -> None:
    if panel.session.plate is not None:
        panel.session.go_to(panel.session.plate.frames[index])


def _play(panel: Panel) -> None:
    panel.commands["play"].setChecked(panel.player.play(panel.commands["play"].isChecked()))


def _set_range(panel: Panel, first: int | None, last: int | None) -> None:
    """The frames that are played and that multi-frame edits reach: the end that is not named stays; none named, all."""
    plate = panel.session.plate
    if plate is None:
        return
    span = None
    if first is not None or last is not None:
        begin, end = panel.session.span or (plate.first, plate.last)
        begin, end = (begin if first is None else first), (end if last is None else last)
        span = (begin, max(begin, end)) if last is None else (min(begin, end), end)
    panel.canvas.set_span(span)
    text = range_text(span)
    also = f"{text}; Ctrl+I takes all frames again" if text else "all frames"
    panel.status.say(f"Plays, edits, runs and paints {also}")


def _leave(panel: Panel) -> None:
    if panel.session.is_dragging or panel.canvas.is_held:
        panel.canvas.cancel_gesture()
    elif panel.jobs.is_running:
        panel.jobs.stop()


def _told(panel: Panel, what: str, label: str | None) -> None:
    if label is None and (panel.session.is_dragging or panel.canvas.is_held):
        panel.status.say(LET_GO)
        return
    panel.status.say(f"{what}: {label}" if label is not None else f"Nothing to be {what.lower()}")
