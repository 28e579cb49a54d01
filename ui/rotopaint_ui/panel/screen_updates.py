"""Updates of the screen after changes of the session: at once, or when the mouse rests."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer

from rotopaint_ai.project.face_groups import face_names
from rotopaint_ai.spreads import SPREADS
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE, DisplayLook
from rotopaint_ui.engine.live_client import SeamPreview
from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.services.panel_services import PanelServices
from rotopaint_ui.services.shot_jobs import CLEAN as CLEAN_JOB
from rotopaint_ui.session.shot_files import range_text
from rotopaint_ui.session.spread_reach import SpreadReach

COALESCE_MS = 100  # milliseconds without motion, after which slower widgets show the result of a drag
_OF_A_PLATE = (
    *(
        "accept",
        "needs_work",
        "reject",
        "note",
        "accept_next",
        "run",
        "run_all",
        "run_anyway",
        "play",
        "find_face",
        "worst",
        "worst_back",
    ),
    *(
        "first",
        "previous",
        "next",
        "last",
        "wipe",
        "flip",
        "canvas.fit_face",
        "canvas.fit",
    ),
)
PREFETCH = (1, -1, 2, -2, 3, 4)


class ScreenUpdates(QObject):
    """Keeps a panel's widgets in line with its session."""

    def __init__(self, services: PanelServices, widgets: PanelWidgets, parent: QObject) -> None:
        super().__init__(parent)
        self._services, self._widgets = services, widgets
        self._shown: object = None
        self._slow = QTimer(self, singleShot=True, interval=COALESCE_MS)
        self._slow.timeout.connect(self.refresh_slow)

    def refresh(self) -> None:
        """Update after a change of the session: the viewer at once, other widgets at intervals during a drag."""
        services, widgets, session = self._services, self._widgets, self._services.session
        widgets.canvas.refresh()
        services.previewer.refresh()
        if session.edits.is_dragging:
            self._slow.start()  # restarted at each change, so that slower widgets update after a pause
            widgets.actions["undo"].setEnabled(session.edits.can_undo)  # from keys pressed one after another
        else:
            self.refresh_slow()
            services.autosave.touch()
        wanted = (session.frame, session.plate, widgets.canvas.wipe is not None, widgets.canvas.shows_clean)
        if wanted != self._shown:
            self._shown = wanted
            self.want_frames()

    def refresh_slow(self) -> None:
        """Update the widgets for which a drag need not wait."""
        services, widgets, session = self._services, self._widgets, self._services.session
        services.review.refresh()
        self.show_reach()
        widgets.inspector.refresh()
        widgets.timeline.moved = services.review.moved
        widgets.timeline.refresh()
        self._refresh_range()
        self._refresh_commands()
        widgets.status.show_saved(*self._saved())
        if widgets.inspector.currentWidget() is widgets.inspector.seam and not session.edits.is_dragging:
            widgets.inspector.seam.show_stale(
                session.stale_frames(),
                len(session.painting.painted_fingerprints),
                services.jobs.kind == CLEAN_JOB,
                session.wanted_frames if session.span is not None else None,
            )

    def _saved(self) -> tuple[str, str]:
        """One word on whether the work is saved, and a sentence that tells where."""
        session = self._services.session
        path, trouble = session.project.path, session.project.trouble
        shapes = "" if session.shapes_file.path is None else session.shapes_file.path.name
        written = f"{shapes} is {'written' if session.shapes_file.is_saved else 'written when the hand rests'}"
        if trouble is not None:
            return "Not saved", trouble
        if path is None:
            known = session.document is not None and not session.runs.is_live
            return ("Saved" if session.shapes_file.is_saved else "Not saved yet", written) if known else ("", "")
        if session.project.is_read_only:
            owner = session.project.lock_owner
            return f"Read only: {owner} has it" if owner else "Read only", f"{path}: nothing is written"
        return "Saved", f"Every gesture is in {path}; {written}"

    def _refresh_range(self) -> None:
        """Update the widgets that depend on In and Out."""
        span = self._services.session.span
        if self._services.player.range != span:
            self._services.player.set_range(*(span or (None, None)))
        self._widgets.top.show_range(range_text(span))

    def _refresh_commands(self) -> None:
        services, widgets, session = self._services, self._widgets, self._services.session
        get = widgets.actions
        mark = session.state.marks.get(session.frame)
        has_plate, has_document = session.plate is not None, session.document is not None
        for name, on in (
            *(("undo", session.edits.can_undo), ("redo", session.edits.can_redo)),
            *((way.name, has_document) for way in SPREADS if way.needs == "shot"),
            *((name, has_plate) for name in _OF_A_PLATE),
            ("relink", session.project.path is not None),
            ("colourspace", has_plate and session.project.path is not None),
            *((name, has_plate and has_document) for name in ("make_clean", "make_all", "preview_seam")),
            ("export", has_document),
            ("teach", has_document),
            ("learn_shot", has_document),
        ):
            get[name].setEnabled(on)
        get["accept"].setChecked(mark == "accepted")
        get["needs_work"].setChecked(mark == "needs work")
        get["reject"].setChecked(mark == "rejected")
        widgets.review_bar.show_frame(session.plate, session.frame)
        widgets.review_bar.show_reason(services.review.reason())
        widgets.review_bar.show_offer("teach", bool(services.teacher.offer()))
        widgets.review_bar.show_offer("learn_shot", services.teacher.offers_learning())
        widgets.review_bar.show_summary(services.review.summary())
        widgets.top.export.setEnabled(has_document)
        widgets.top.show_faces(face_names(session.state), session.state.face)
        widgets.top.face.setEnabled(has_plate and not session.runs.is_live)
        widgets.top.run.setEnabled(has_plate)

    # --- the bracket

    def show_reach(self) -> None:
        """Show the range of the correction at this frame."""
        self._widgets.timeline.reach = self._services.review.reach
        self._widgets.review_bar.show_reach(self._services.review.reach)
        self._widgets.timeline.update()

    def drag_reach(self, reach: SpreadReach, has_let_go: bool) -> None:
        """Show the range of the bracket while the mouse drags it."""
        self._services.review.drag(reach, has_let_go)
        self.show_reach()

    # --- pictures

    def want_frames(self) -> None:
        """Request this frame first, from both plates if both are visible, then its neighbours."""
        plate, frame = self._services.session.plate, self._services.session.frame
        if plate is None:
            return
        frames = set(plate.frames)
        near = [frame, *(frame + step for step in PREFETCH)]
        names = [PLATE]
        if self._widgets.canvas.wipe is not None or self._widgets.canvas.shows_clean:
            names = [CLEAN, PLATE] if self._widgets.canvas.shows_clean else [PLATE, CLEAN]
        self._services.frame_cache.want([(name, each) for each in near if each in frames for name in names])

    def want_pictures(self) -> None:
        """Request frames and thumbnails."""
        self.want_frames()
        self._services.frame_cache.want_thumbs(self._widgets.timeline.thumb_frames())

    def change_look(self, look: DisplayLook) -> None:
        """Apply a change of exposure, gamma or view."""
        self._services.frame_cache.look = look
        for name, action in self._widgets.actions.items():
            if name.startswith("channel."):
                action.setChecked(name == f"channel.{look.channel}")
        self.want_pictures()
        self._services.previewer.refresh()

    def take_image(self, name: str, frame: int) -> None:
        """Handle a picture that has arrived, or that cannot be read."""
        if frame == self._services.session.frame:
            self._widgets.canvas.refresh()
        if (name, frame) in self._services.frame_cache.broken:
            self._widgets.timeline.update()

    def show_preview(self, preview: SeamPreview | None) -> None:
        """Show the painted seam of this frame; None shows no preview."""
        self._widgets.inspector.seam.show_preview(None if preview is None else (preview.before, preview.after))
        self._widgets.canvas.refresh()

    # --- what is open, and what runs

    def show_running(self) -> None:
        """Update the widgets when a job has begun or ended."""
        self._widgets.top.show_running(self._services.jobs.is_running)
        self.refresh_slow()

    def show_waiting(self, project: str) -> None:
        """Clear the screen for a project whose plate is missing."""
        if self._services.previewer.is_on:
            self._widgets.actions["preview_seam"].trigger()
        if self._widgets.actions["before"].isChecked():
            self._widgets.actions["before"].trigger()
        for name in (PLATE, CLEAN):
            self._services.frame_cache.forget(name)
        self._services.review.reset()
        self._widgets.canvas.view = ViewTransform()
        self._widgets.top.show_waiting(project)
        self._widgets.top.show_device("")
        self.refresh()
