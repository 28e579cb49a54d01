"""Who in a panel listens to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotopaint_ui.services.review_loop import Visits
from rotopaint_ui.widgets import dialogs

if TYPE_CHECKING:
    from rotopaint_ui.panel.panel import Panel


def connect(panel: Panel) -> None:
    """Wire widgets, session and processes of a panel together."""
    _connect_widgets(panel)
    _connect_opening(panel)
    _connect_jobs(panel)


def _connect_widgets(panel: Panel) -> None:
    session, screen, inspector = panel.session, panel.display, panel.inspector
    session.listeners.append(screen.refresh)
    session.said.append(lambda text: panel.status.say(text))
    panel.top.open.clicked.connect(panel.open_chosen)
    panel.top.run.clicked.connect(panel.run)
    panel.top.run_all.clicked.connect(panel.run_all)
    panel.top.export.clicked.connect(panel.export)
    panel.top.pack_chosen.connect(panel.results.load_pack)
    panel.status.diagnostics_wanted.connect(panel.copy_diagnostics)
    panel.view_bar.look_changed.connect(screen.change_look)
    panel.canvas.readout_changed.connect(panel.view_bar.show_readout)
    panel.canvas.relink_wanted.connect(panel.commands["relink"].trigger)
    panel.player.measured.connect(panel.canvas.show_rate)
    panel.timeline.frame_wanted.connect(session.go_to)
    panel.timeline.shape_wanted.connect(session.select)
    panel.timeline.reach_changed.connect(screen.drag_reach)
    panel.review_bar.frame_wanted.connect(session.go_to)
    panel.review_bar.visits_changed.connect(lambda text: setattr(panel.review, "visits", Visits(text)))
    inspector.shapes.chosen_changed.connect(inspector.seam.choose)
    inspector.seam.make_wanted.connect(panel.make_clean)
    inspector.seam.make_all_wanted.connect(panel.make_all)
    inspector.currentChanged.connect(lambda index: screen.refresh_slow())
    into = inspector.export.folder.setText
    inspector.export.folder_wanted.connect(lambda: dialogs.ask_for_folder(panel, "Where exports go", into))


def _connect_opening(panel: Panel) -> None:
    frame_cache, opening, say = panel.frame_cache, panel.opening, panel.status.say
    frame_cache.opened.connect(panel.results.take_clean)
    frame_cache.views.connect(panel.view_bar.show_views)
    frame_cache.packs.connect(panel.top.show_packs)
    frame_cache.image_ready.connect(panel.display.take_image)
    frame_cache.thumb_ready.connect(lambda frame: panel.timeline.update())
    frame_cache.failed.connect(lambda text: say(opening.explain(text), "trouble"))
    opening.opened.connect(panel.results.take_plate)
    opening.waits.connect(panel.display.show_waiting)
    opening.put_back.connect(panel.display.want_pictures)


def _connect_jobs(panel: Panel) -> None:
    say, jobs, results = panel.status.say, panel.jobs, panel.results
    for source in (jobs.said, panel.exports.said, panel.importer.said, panel.opening.said):
        source.connect(say)
    jobs.progressed.connect(panel.status.show_progress)
    jobs.device.connect(panel.top.show_device)
    jobs.started.connect(lambda kind: panel.display.show_running())
    jobs.painted.connect(results.note_painted)
    jobs.read.connect(results.take_results)
    jobs.ended.connect(results.end_job)
    jobs.drew.connect(panel.exports.take_mattes)
    panel.exports.mattes_wanted.connect(lambda document, out: jobs.draw_mattes(document, out, panel.preferences))
    panel.live.said.connect(lambda text: say(text, "trouble"))
    panel.live.lost.connect(lambda text: say(text, "trouble"))
    panel.previewer.shown.connect(panel.display.show_preview)
    panel.autosave.kept.connect(panel.display.refresh)
    panel.autosave.failed.connect(lambda text: say(text, "trouble"))
