"""The function of every command of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from rotopaint_ai.spreads import SPREADS
from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.panel.shot_commands import ShotCommands
from rotopaint_ui.panel.view_commands import ViewCommands
from rotopaint_ui.services.panel_services import PanelServices
from rotopaint_ui.settings.commands import COMMANDS

Handler = Callable[[], object]


def command_handlers(
    services: PanelServices, widgets: PanelWidgets, shot: ShotCommands, view: ViewCommands
) -> dict[str, Handler]:
    """A function for each command, by its name; see `settings.commands` for the meaning of names."""
    by_name = {**_shot_handlers(services, shot), **_view_handlers(services, view)}
    by_kind: Mapping[str, Callable[[str], Handler]] = {
        "tool": lambda name: partial(view.take_tool, name),
        "overlay": lambda name: view.change_overlays,
        "edit": lambda name: partial(view.edit, name),
        "channel": lambda name: partial(view.show_channel, name),
        "pane": lambda name: view.show_panes,
        "canvas": lambda name: getattr(widgets.canvas, name),
    }
    found: dict[str, Handler] = {}
    for each in COMMANDS:
        kind, _, name = each.name.partition(".")
        found[each.name] = by_kind[kind](name) if name else by_name[each.name]
    return found


def _shot_handlers(services: PanelServices, shot: ShotCommands) -> dict[str, Handler]:
    return {
        "open": shot.open_chosen,
        "open_project": shot.ask_for_project,
        "relink": shot.relink,
        "colourspace": shot.ask_for_colourspace,
        "save": shot.save,
        "export": shot.export_by_key,
        "copy_shapes": shot.copy_shapes,
        "diagnostics": shot.copy_diagnostics,
        "rename": shot.rename,
        "run": shot.run,
        "run_all": shot.run_all,
        "run_anyway": shot.run_anyway,
        "find_face": shot.find_face,
        "next_face": shot.take_next_face,
        "clear_touchup": shot.clear_touchup,
        "make_clean": shot.make_clean,
        "make_all": shot.make_all,
        "take_off_rig": shot.take_off_rig,
        "teach": shot.teach,
        "learn_shot": shot.learn_shot,
        "learn": shot.learn,
        "track": shot.track,
    }


def _view_handlers(services: PanelServices, view: ViewCommands) -> dict[str, Handler]:
    review = services.review
    return {
        "undo": view.undo,
        "redo": view.redo,
        "leave": view.leave,
        "wipe": view.show_wipe,
        "flip": view.show_clean,
        "difference": view.show_difference,
        "difference_last": view.show_difference_to_last,
        "overlays": view.change_overlays,
        "play": view.play,
        "next": partial(view.step, 1),
        "previous": partial(view.step, -1),
        "next_ten": partial(view.step, 10),
        "previous_ten": partial(view.step, -10),
        "next_key": partial(view.step_key, 1),
        "previous_key": partial(view.step_key, -1),
        "first": partial(view.go_to_end, 0),
        "last": partial(view.go_to_end, -1),
        "range_in": view.set_in,
        "range_out": view.set_out,
        "range_all": view.clear_range,
        "worst": partial(view.worst, 1),
        "worst_back": partial(view.worst, -1),
        "accept": partial(review.mark, "accepted"),
        "accept_next": review.accept_and_go_on,
        "needs_work": partial(review.mark, "needs work"),
        "reject": partial(review.mark, "rejected"),
        "note": view.begin_note,
        **{way.name: partial(review.carry, way.name) for way in SPREADS},
        "before": view.show_before,
        "last_version": view.show_last_version,
        "spread_shorter": partial(view.lengthen_reach, -1),
        "spread_longer": partial(view.lengthen_reach, 1),
        "preview_seam": view.preview_seam,
        "only_viewer": view.show_panes,
        "full_screen": view.fill_screen,
    }
