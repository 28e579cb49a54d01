"""The signal connections of a panel."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.panel.result_handlers import ResultHandlers
from rotopaint_ui.panel.screen_updates import ScreenUpdates
from rotopaint_ui.panel.shot_commands import ShotCommands
from rotopaint_ui.services.panel_services import PanelServices
from rotopaint_ui.services.review_loop import Visits
from rotopaint_ui.widgets import dialogs


def connect_widgets(
    services: PanelServices, widgets: PanelWidgets, updates: ScreenUpdates, shot: ShotCommands, window: QWidget
) -> None:
    """Connect the signals of widgets."""
    session, inspector = services.session, widgets.inspector
    session.listeners.append(updates.refresh)
    session.message_sent.append(widgets.status.say)
    session.edits.made.append(lambda label: widgets.status.say(label.capitalize()))
    widgets.top.open.clicked.connect(shot.open_chosen)
    widgets.top.run.clicked.connect(lambda checked: shot.run())
    widgets.top.run_all.clicked.connect(shot.run_all)
    widgets.top.export.clicked.connect(shot.export)
    widgets.status.diagnostics_wanted.connect(shot.copy_diagnostics)
    widgets.top.face_chosen.connect(shot.choose_face)
    widgets.view_bar.look_changed.connect(updates.change_look)
    widgets.canvas.readout_changed.connect(widgets.view_bar.show_readout)
    widgets.canvas.relink_wanted.connect(shot.relink)
    widgets.canvas.edited.connect(lambda name: widgets.timeline.sheet.forget_copied() if name == "copy_key" else None)
    services.frame_cache.spaces.connect(shot.offer_colourspaces)
    widgets.timeline.frame_wanted.connect(session.go_to)
    widgets.timeline.shape_wanted.connect(session.select)
    widgets.timeline.reach_changed.connect(updates.drag_reach)
    widgets.review_bar.frame_wanted.connect(session.go_to)
    widgets.review_bar.visits_changed.connect(lambda text: services.review.visit(Visits(text)))
    inspector.frame.note_written.connect(services.review.write_note)
    inspector.seam.render_wanted.connect(shot.make_clean)
    inspector.seam.render_all_wanted.connect(shot.make_all)
    inspector.currentChanged.connect(lambda index: updates.refresh_slow())
    into = inspector.export.folder.setText
    inspector.export.folder_wanted.connect(lambda: dialogs.ask_for_folder(window, "Where exports go", into))


def connect_services(
    services: PanelServices,
    widgets: PanelWidgets,
    updates: ScreenUpdates,
    results: ResultHandlers,
    exports: ExportRunner,
) -> None:
    """Connect the signals of services."""
    say, opening, jobs = widgets.status.say, services.opening, services.jobs
    _connect_frames(services, widgets, updates, results)
    opening.opened.connect(lambda plate: services.teacher.forget())  # first, so that its last line is not the one shown
    opening.opened.connect(lambda plate: services.tracker.forget())
    opening.opened.connect(results.show_plate)
    opening.waits.connect(updates.show_waiting)
    opening.put_back.connect(updates.want_pictures)
    for lines in (jobs.message_sent, exports.message_sent, services.importer.message_sent, opening.message_sent):
        lines.connect(say)
    for troubles in (
        services.live.message_sent,
        services.live.lost,
        services.autosave.failed,
        services.preferences.failed,
    ):
        troubles.connect(lambda text: say(text, "trouble"))
    jobs.progressed.connect(widgets.status.show_progress)
    jobs.device.connect(widgets.top.show_device)
    jobs.started.connect(lambda kind: updates.show_running())
    jobs.painted.connect(lambda frame: services.clean_plate.note_painted())
    jobs.read.connect(results.show_results)
    jobs.ended.connect(results.end_job)
    jobs.drew.connect(exports.take_mattes)
    exports.mattes_wanted.connect(lambda document, out: jobs.draw_mattes(document, out, services.preferences.value))
    widgets.top.pack_chosen.connect(results.load_pack)
    teacher = services.teacher
    teacher.message_sent.connect(say)
    teacher.progressed.connect(widgets.status.show_progress)
    teacher.taught.connect(services.review.show_moved)
    teacher.ended.connect(widgets.status.hide_progress)
    teacher.wants_look.connect(updates.refresh)
    teacher.learnt.connect(results.offer_learnt)
    tracker = services.tracker
    tracker.message_sent.connect(say)
    tracker.progressed.connect(widgets.status.show_progress)
    tracker.ended.connect(widgets.status.hide_progress)
    services.previewer.shown.connect(updates.show_preview)
    services.autosave.kept.connect(updates.refresh)


def _connect_frames(
    services: PanelServices, widgets: PanelWidgets, updates: ScreenUpdates, results: ResultHandlers
) -> None:
    cache, say = services.frame_cache, widgets.status.say
    cache.opened.connect(lambda name, facts: results.show_clean(name))
    cache.views.connect(widgets.view_bar.show_views)
    cache.packs.connect(widgets.top.show_packs)
    cache.image_ready.connect(updates.take_image)
    cache.thumb_ready.connect(lambda frame: widgets.timeline.update())
    cache.failed.connect(lambda text: say(services.opening.explain(text), "trouble"))
    services.player.measured.connect(widgets.canvas.show_rate)
