"""Commands that change the view: tools, overlays, wipe, preview, playback, range, review."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace

from PySide6.QtCore import Qt

from rotopaint_ui.engine.frame_cache import CHANNELS
from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.panel.screen_updates import ScreenUpdates
from rotopaint_ui.services.panel_services import PanelServices
from rotopaint_ui.services.review_loop import Visits
from rotopaint_ui.session.edit_stack import LET_GO
from rotopaint_ui.session.shot_files import range_text
from rotopaint_ui.viewer.plate_painter import GAIN


class ViewCommands:
    """Each method is one command."""

    def __init__(self, services: PanelServices, widgets: PanelWidgets, updates: ScreenUpdates) -> None:
        self._services, self._widgets, self._updates = services, widgets, updates
        self._say = widgets.status.say
        self._shown_before: dict[str, bool] = {}  # wipe and flip before the difference
        self._is_preview_borrowed = False  # the preview is shown only for the difference to the last render
        self._was_alone = False  # the viewer, before it filled the screen

    # --- the viewer

    def take_tool(self, name: str) -> None:
        """Choose a tool of the viewer; for the clone brush, also show the clean plate."""
        actions, state = self._widgets.actions, self._services.session.state
        self._widgets.canvas.tool = name
        name = self._widgets.canvas.tool  # a drag keeps its own
        if name == "clone" and not self._services.previewer.is_on and state.document is not None:
            actions["preview_seam"].trigger()
        for each, action in actions.items():
            if each.startswith("tool."):
                action.setChecked(each == f"tool.{name}")

    def change_overlays(self) -> None:
        """Draw the overlays that are switched on, or none where all are switched off."""
        actions, canvas = self._widgets.actions, self._widgets.canvas
        everything = actions["overlays"].isChecked()
        rows = {name[8:]: action for name, action in actions.items() if name.startswith("overlay.")}
        shown = {name: everything and row.isChecked() for name, row in rows.items()}
        canvas.overlay = replace(canvas.overlay, **shown)  # type: ignore[arg-type]
        canvas.update()

    def edit(self, name: str) -> None:
        """Carry out an edit of `tools.edit_actions`."""
        canvas, action = self._widgets.canvas, self._widgets.actions[f"edit.{name}"]
        canvas.edit(name)
        if action.isCheckable():
            action.setChecked(canvas.is_on(name))

    def show_clean(self) -> None:
        """Apply the buttons for wipe and flip."""
        actions, canvas = self._widgets.actions, self._widgets.canvas
        canvas.show_wipe(actions["wipe"].isChecked())
        canvas.shows_clean = actions["flip"].isChecked()
        if not canvas.shows_clean:
            self._end_difference()
        self._services.clean_plate.open()
        self._updates.refresh()

    def show_wipe(self) -> None:
        """Switch the wipe on or off. If the difference is shown, the wipe replaces it."""
        actions, canvas = self._widgets.actions, self._widgets.canvas
        if actions["wipe"].isChecked() and canvas.has_difference:
            self._end_difference()
            actions["flip"].setChecked(self._shown_before["flip"])
        self.show_clean()

    def show_difference(self) -> None:
        """Show the difference to the clean plate, or return to the previous view."""
        actions, canvas = self._widgets.actions, self._widgets.canvas
        canvas.has_difference = actions["difference"].isChecked()
        if not canvas.has_difference:
            self._end_difference()
        shown = {name: actions[name].isChecked() for name in ("flip", "wipe")}
        if canvas.has_difference:
            self._shown_before = shown
        wanted = {"flip": True, "wipe": False} if canvas.has_difference else self._shown_before
        for name, is_on in wanted.items():
            if shown[name] != is_on:
                actions[name].trigger()
        canvas.update()

    def _end_difference(self) -> None:
        canvas = self._widgets.canvas
        canvas.has_difference = canvas.against_last = False
        for name in ("difference", "difference_last"):
            self._widgets.actions[name].setChecked(False)
        preview, is_borrowed = self._widgets.actions["preview_seam"], self._is_preview_borrowed
        self._is_preview_borrowed = False
        if is_borrowed and preview.isChecked():
            preview.trigger()

    def show_difference_to_last(self) -> None:
        """Show the difference between the preview and the last rendered clean plate, or return to the previous view."""
        actions, canvas, services = self._widgets.actions, self._widgets.canvas, self._services
        on, frame = actions["difference_last"].isChecked(), services.session.frame
        if on and not services.session.painting.painted_fingerprints:
            self._say("No clean plate was rendered yet: there is nothing to compare with")
            actions["difference_last"].setChecked(False)
            return
        shown = {name: actions[name].isChecked() for name in ("flip", "wipe")}
        lends = on and not services.previewer.is_on
        if lends:
            actions["preview_seam"].trigger()
        if on != canvas.has_difference:
            actions["difference"].trigger()
            self._shown_before = shown if on else self._shown_before
        self._is_preview_borrowed, canvas.against_last = self._is_preview_borrowed or lends, on
        actions["difference_last"].setChecked(on)
        if on:
            self._say(f"What was changed at {frame} since it was rendered, {GAIN} times")
        canvas.update()

    def show_channel(self, name: str) -> None:
        """Show only one channel; the same channel again shows all."""
        view_bar = self._widgets.view_bar
        view_bar.channel.setCurrentText(CHANNELS[0] if view_bar.channel.currentText() == name else name)

    def preview_seam(self) -> None:
        """Show this frame with its seams painted out, or return to the previous view."""
        actions = self._widgets.actions
        on = actions["preview_seam"].isChecked()
        if on != actions["flip"].isChecked():
            actions["flip"].trigger()
        self._services.previewer.switch(on)
        frame = self._services.session.frame
        self._say(f"Preview: seams of {frame} painted away, nothing written" if on else "Preview left")

    def show_panes(self) -> None:
        """Show the panes around the viewer that are switched on."""
        widgets, actions = self._widgets, self._widgets.actions
        is_alone = actions["only_viewer"].isChecked()
        below = widgets.timeline.parentWidget()
        panes = {"tools": widgets.tools, "inspector": widgets.inspector, "timeline": below}
        for name, pane in panes.items():
            if pane is not None:
                pane.setVisible(actions[f"pane.{name}"].isChecked() and not is_alone)
        widgets.top.setVisible(not (is_alone and actions["full_screen"].isChecked()))

    def fill_screen(self) -> None:
        """Show only the viewer on the full screen, or restore the window."""
        actions, window = self._widgets.actions, self._widgets.canvas.window()
        is_on = actions["full_screen"].isChecked()
        window.setWindowState(window.windowState() ^ Qt.WindowState.WindowFullScreen)
        if is_on:
            self._was_alone = actions["only_viewer"].isChecked()
        actions["only_viewer"].setChecked(is_on or self._was_alone)
        self.show_panes()

    def show_before(self) -> None:
        """Show the shapes before the last spread or refit, else before the last step; or the current ones."""
        session, action = self._services.session, self._widgets.actions["before"]
        before = self._services.review.before or session.edits.document_before
        if action.isChecked() and before is None:
            self._say("Nothing to compare with: no step was made since the shot was opened")
        action.setChecked(action.isChecked() and before is not None)
        self._widgets.canvas.before = before if action.isChecked() else None
        self._widgets.canvas.update()

    def show_last_version(self) -> None:
        """Show shapes and clean plate of the last save or run, or the current ones."""
        action, canvas = self._widgets.actions["last_version"], self._widgets.canvas
        version = self._services.session.version
        if action.isChecked() and version is None:
            self._say("Nothing to compare with: the shot was neither saved nor run")
        action.setChecked(action.isChecked() and version is not None)
        canvas.shows_last = action.isChecked()
        canvas.before = version if action.isChecked() else None
        canvas.update()

    def let_go_of_before(self) -> None:
        """Handle the release of the key that shows earlier shapes."""
        for name in ("before", "last_version"):
            if self._widgets.actions[name].isChecked():
                self._widgets.actions[name].trigger()

    # --- time

    def play(self) -> None:
        """Play, or stop."""
        action = self._widgets.actions["play"]
        action.setChecked(self._services.player.play(action.isChecked()))

    def step(self, by: int) -> None:
        """Go some frames on, or back."""
        session = self._services.session
        session.go_to(session.frame + by)

    def step_key(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) key of the selected shape, or of any shape."""
        session = self._services.session
        document, shape = session.document, session.shape
        if document is None:
            return
        shapes = (shape,) if shape is not None else document.shapes
        layer = self._widgets.canvas.context.layer
        frames = sorted(layer.poses) if layer is not None else sorted({f for each in shapes for f in each.keys})
        at = bisect_right(frames, session.frame) if direction > 0 else bisect_left(frames, session.frame) - 1
        if 0 <= at < len(frames):
            session.go_to(frames[at])

    def go_to_end(self, index: int) -> None:
        """Go to the first (0) or last (-1) frame."""
        session = self._services.session
        if session.plate is not None:
            session.go_to(session.plate.frames[index])

    def set_in(self) -> None:
        """Set In at this frame: the start of the range for playback and edits."""
        self._set_range(self._services.session.frame, None)

    def set_out(self) -> None:
        """Set Out at this frame: the end of the range for playback and edits."""
        self._set_range(None, self._services.session.frame)

    def clear_range(self) -> None:
        """Clear In and Out."""
        self._set_range(None, None)

    def _set_range(self, first: int | None, last: int | None) -> None:
        """Set In or Out; if neither remains, the range is the whole shot."""
        session = self._services.session
        plate, span = session.plate, None
        if plate is None:
            return
        if first is not None or last is not None:
            begin, end = session.span or (plate.first, plate.last)
            begin, end = (begin if first is None else first), (end if last is None else last)
            span = (begin, max(begin, end)) if last is None else (min(begin, end), end)
        self._widgets.canvas.set_span(span)
        text = range_text(span)
        also = f"{text}; Ctrl+I takes all frames again" if text else "all frames"
        self._say(f"Plays, edits, runs and paints {also}")

    # --- review

    def worst(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) frame to review, and show the reason."""
        session, review = self._services.session, self._services.review
        if review.step(direction):
            self._say(self._widgets.timeline.tip(session.frame).replace("\n", ", ") + self._note_on_selection())
        elif review.visits not in (Visits.SEAMS, Visits.WORST):
            self._say(f"No frame is left: {review.visits.value}")
        elif session.run.errors:
            self._say("No frame is left to check: all are accepted or keyed by hand")
        else:
            self._say("Press Run first")

    def _note_on_selection(self) -> str:
        """A note that N visits only frames of the selected shape, where that is so."""
        session, visits = self._services.session, self._services.review.visits
        shape = session.shape
        if shape is None or visits not in (Visits.SEAMS, Visits.WORST):
            return ""
        return f"; N goes by {session.names.of(shape.name)} alone, which is selected"

    def begin_note(self) -> None:
        """Show the Frame tab with the focus in the note field."""
        inspector, action = self._widgets.inspector, self._widgets.actions["pane.inspector"]
        if self._services.session.plate is None:
            self._say("Open a plate first")
            return
        if self._services.session.project.refuses():
            return
        if not action.isChecked():
            action.trigger()
        inspector.setCurrentWidget(inspector.frame)
        inspector.frame.note.setFocus()
        inspector.frame.note.selectAll()

    def lengthen_reach(self, by: int) -> None:
        """Extend the range of the correction by some frames at both ends."""
        self._services.review.lengthen(by)
        self._updates.show_reach()

    # --- undo

    def undo(self) -> None:
        """Undo the last step."""
        edits = self._services.session.edits
        if self._services.session.must_wait():
            return
        self._say_step("Undone", edits.undo(), has_none=not edits.can_undo)

    def redo(self) -> None:
        """Redo the last undone step."""
        edits = self._services.session.edits
        if self._services.session.must_wait():
            return
        self._say_step("Redone", edits.redo(), has_none=not edits.can_redo)

    def leave(self) -> None:
        """Cancel the current drag, or else stop the job."""
        canvas, jobs = self._widgets.canvas, self._services.jobs
        if self._services.session.edits.is_dragging or canvas.is_held:
            canvas.cancel_gesture()
        elif jobs.is_running:
            jobs.stop()
        elif self._services.teacher.is_running:
            self._services.teacher.stop()
        elif self._services.tracker.is_running:
            self._services.tracker.stop()
        elif self._widgets.actions["full_screen"].isChecked():
            self._widgets.actions["full_screen"].trigger()

    def _say_step(self, what: str, label: str | None, *, has_none: bool) -> None:
        """Report an undo or redo. Without a label: `has_none` where there is no step; otherwise the reason is shown
        already."""
        is_held = self._services.session.edits.is_dragging or self._widgets.canvas.is_held
        if label is not None:
            self._say(f"{what}: {label}")
        elif is_held or has_none:
            self._say(LET_GO if is_held else f"Nothing to be {what.lower()}")
