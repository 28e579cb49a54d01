"""The view of a shot, which the project stores: frame, zoom, tab, pack, hidden and locked shapes, window, panes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QPointF, QRect
from PySide6.QtWidgets import QMainWindow, QSplitter

from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.session.session import ShotSession


class ViewMemory:
    """Stores the view of a panel, and restores it. Values that do not fit any more are ignored."""

    def __init__(self, session: ShotSession, widgets: PanelWidgets) -> None:
        self._session, self._widgets = session, widgets
        session.looked_at = self.describe_view

    def describe_view(self) -> dict[str, Any]:
        """The view as JSON values; empty without a plate."""
        session, canvas = self._session, self._widgets.canvas
        if session.plate is None:
            return {}
        x, y = canvas.view.to_plate(QPointF(canvas.width() / 2, canvas.height() / 2))
        window = canvas.window()
        place = window.normalGeometry() if window.isFullScreen() else window.geometry()
        return {
            "frame": session.frame,
            "span": list(session.span) if session.span is not None else None,
            "view": None if canvas.is_fitted else [canvas.view.zoom, x, y],
            "tab": self._widgets.inspector.currentIndex(),
            "pack": self._widgets.top.chosen_pack,
            "hidden": sorted(session.hidden),
            "locked": sorted(session.locked),
            "colours": dict(session.colours),
            "xsheet": {part: {str(f): each for f, each in row.items()} for part, row in session.xsheet.items()},
            "window": rectangle(place) if isinstance(window, QMainWindow) else None,
            "panes": [pane_px(self._widgets.columns), pane_px(self._widgets.rows)],
        }

    def restore(self) -> None:
        """Restore the view that was stored with the project; once for each opening."""
        session, note = self._session, self._session.view_note
        session.view_note = {}
        if session.plate is None or not note:
            return
        try:
            self._show_view(note)
        except (KeyError, TypeError, ValueError):
            session.say("The project's view could not be read; the shot is shown as new")

    def _show_view(self, note: Mapping[str, Any]) -> None:
        session, widgets = self._session, self._widgets
        if note.get("pack") is not None:
            widgets.top.show_pack(str(note["pack"]))
        if set(note) == {"pack"}:
            return  # from a run on the command line; the shot was never shown
        names = {shape.name for shape in session.document.shapes} if session.document is not None else set()
        session.hidden = frozenset(note["hidden"]) & names
        session.locked = frozenset(note["locked"]) & names
        session.colours = {str(name): str(each) for name, each in note["colours"].items() if name in names}
        sheet = note.get("xsheet", {})  # of a newer version than the first
        session.xsheet = {str(part): {int(f): str(e) for f, e in row.items()} for part, row in sheet.items()}
        span = note["span"]
        widgets.canvas.set_span(None if span is None else (int(span[0]), int(span[1])))
        widgets.inspector.setCurrentIndex(int(note["tab"]))
        window = widgets.canvas.window()
        is_filled = window.isMaximized() or window.isFullScreen()
        if note["window"] is not None and isinstance(window, QMainWindow) and not is_filled:
            window.setGeometry(fit_window(QRect(*map(int, note["window"])), window.screen().availableGeometry()))
        for splitter, px in zip((widgets.columns, widgets.rows), note.get("panes", ())):  # of a newer version
            if px:
                give_pane(splitter, int(px))
        if note["view"] is not None:
            zoom, x, y = map(float, note["view"])
            widgets.canvas.look_at(x, y, zoom)
        session.go_to(int(note["frame"]))
        session.notify()


def rectangle(area: QRect) -> list[int]:
    """A window's rectangle as (left, top, width, height)."""
    return [area.x(), area.y(), area.width(), area.height()]


def pane_px(splitter: QSplitter) -> int:
    """The size of the pane beside the viewer along the splitter; 0 while it is hidden."""
    return splitter.sizes()[1]


def give_pane(splitter: QSplitter, px: int) -> None:
    """Set the size of the pane beside the viewer, which gets the rest."""
    splitter.setSizes([max(sum(splitter.sizes()) - px, 0), px])


def fit_window(wanted: QRect, screen: QRect) -> QRect:
    """A window's place on a screen that may be smaller than the one it was on."""
    size = wanted.size().boundedTo(screen.size())
    x = min(max(wanted.x(), screen.left()), screen.right() + 1 - size.width())
    y = min(max(wanted.y(), screen.top()), screen.bottom() + 1 - size.height())
    return QRect(x, y, size.width(), size.height())
