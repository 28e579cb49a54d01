"""What stands at the right: the shapes, what is known of this frame, the seam, and the export. A module per tab."""

from __future__ import annotations

from PySide6.QtWidgets import QTabWidget

from rotopaint_ui.inspector.export_tab import ExportTab
from rotopaint_ui.inspector.frame_tab import FrameTab
from rotopaint_ui.inspector.seam_tab import SeamTab
from rotopaint_ui.inspector.shapes_tab import ShapesTab
from rotopaint_ui.session.session import ShotSession


class Inspector(QTabWidget):
    """Tabs over one session; only the one that is seen is kept up to date."""

    def __init__(self, session: ShotSession, host_label: str | None) -> None:
        super().__init__()
        self.shapes = ShapesTab(session)
        self.frame = FrameTab(session)
        self.seam = SeamTab(session)
        self.export = ExportTab(session, host_label)
        for tab, name in ((self.shapes, "Shapes"), (self.frame, "Frame"), (self.seam, "Seam"), (self.export, "Export")):
            self.addTab(tab, name)
        self.setDocumentMode(True)
        self.setMinimumWidth(270)
        self.setAccessibleName("Inspector")
        for tab in (self.shapes, self.frame, self.seam, self.export):
            tab.refresh()
        self.currentChanged.connect(lambda index: self.refresh())

    def refresh(self) -> None:
        """Show the session as it is now."""
        tab = self.currentWidget()
        assert isinstance(tab, ShapesTab | FrameTab | SeamTab | ExportTab)
        tab.refresh()
