"""Who in a panel listens to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotopaint_ui import layout
from rotopaint_ui.review import Visits

if TYPE_CHECKING:
    from rotopaint_ui.panel import Panel


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
    panel.top.pack_chosen.connect(panel.arrivals.load_pack)
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
    inspector.export.folder_wanted.connect(lambda: layout.ask_for_folder(panel, "Where exports go", into))


def _connect_opening(panel: Panel) -> None:
    reel, opening, say = panel.reel, panel.opening, panel.status.say
    reel.opened.connect(panel.arrivals.take_clean)
    reel.views.connect(panel.view_bar.show_views)
    reel.packs.connect(panel.top.show_packs)
    reel.image_ready.connect(panel.display.take_image)
    reel.thumb_ready.connect(lambda frame: panel.timeline.update())
    reel.failed.connect(lambda text: say(opening.explain(text), "trouble"))
    opening.opened.connect(panel.arrivals.take_plate)
    opening.waits.connect(panel.display.show_waiting)
    opening.put_back.connect(panel.display.want_pictures)


def _connect_jobs(panel: Panel) -> None:
    say, jobs, arrivals = panel.status.say, panel.jobs, panel.arrivals
    for source in (jobs.said, panel.exports.said, panel.importer.said, panel.opening.said):
        source.connect(say)
    jobs.progressed.connect(panel.status.show_progress)
    jobs.device.connect(panel.top.show_device)
    jobs.started.connect(lambda kind: panel.display.show_running())
    jobs.painted.connect(arrivals.note_painted)
    jobs.read.connect(arrivals.take_results)
    jobs.ended.connect(arrivals.end_job)
    jobs.drew.connect(panel.exports.take_mattes)
    panel.exports.mattes_wanted.connect(lambda document, out: jobs.draw_mattes(document, out, panel.preferences))
    panel.live.said.connect(lambda text: say(text, "trouble"))
    panel.live.lost.connect(lambda text: say(text, "trouble"))
    panel.previewer.shown.connect(panel.display.show_preview)
    panel.keeper.kept.connect(panel.display.refresh)
    panel.keeper.failed.connect(lambda text: say(text, "trouble"))
