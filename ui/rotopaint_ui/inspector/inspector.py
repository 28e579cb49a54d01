"""The inspector at the right: tabs for shapes, this frame, the seam, and export. There is a module per tab."""

from __future__ import annotations

from PySide6.QtWidgets import QTabWidget

from rotopaint_ui.inspector.export_tab import ExportTab
from rotopaint_ui.inspector.frame_tab import FrameTab
from rotopaint_ui.inspector.history_tab import HistoryTab
from rotopaint_ui.inspector.seam_tab import SeamTab
from rotopaint_ui.inspector.shapes_tab import ShapesTab
from rotopaint_ui.session.session import ShotSession


class Inspector(QTabWidget):
    """The tabs of a session; only the visible one is updated."""

    def __init__(self, session: ShotSession, host_label: str | None) -> None:
        super().__init__()
        self.shapes = ShapesTab(session)
        self.frame = FrameTab(session)
        self.seam = SeamTab(session)
        self.export = ExportTab(session, host_label)
        self.history = HistoryTab(session)
        tabs = (self.shapes, self.frame, self.seam, self.export, self.history)
        for tab, name in zip(tabs, ("Shapes", "Frame", "Seam", "Export", "History")):
            self.addTab(tab, name)
        self.setDocumentMode(True)
        self.setMinimumWidth(270)
        self.setAccessibleName("Inspector")
        for tab in tabs:
            tab.refresh()
        self.currentChanged.connect(lambda index: self.refresh())

    def refresh(self) -> None:
        """Show the session."""
        tab = self.currentWidget()
        assert isinstance(tab, ShapesTab | FrameTab | SeamTab | ExportTab | HistoryTab)
        tab.refresh()
