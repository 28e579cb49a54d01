"""The standalone app: a window around the panel, and the host that it stands in for."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QApplication, QMainWindow

from rotopaint_ai.exchange import nuke
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.host import Engine, PlateChoice, find_engine
from rotopaint_ui.panel import Panel


class Standalone:
    """The host when there is none: plates come from the disk, exports go to it."""

    name = "standalone"
    export_label = "Export for Nuke"

    def engine(self) -> Engine:
        """This very Python."""
        return find_engine(own_python=True)

    def chosen_plate(self) -> PlateChoice | None:
        """Nothing is selected outside the panel; it asks for a file."""
        return None

    def export(self, document: RotoDocument, shapes: Path) -> str:
        """Write `shapes.nk` beside the document, to be pasted into Nuke."""
        path = shapes.with_name("shapes.nk")
        error = nuke.write_verified(path, document, layer="RotoPaint_AI", node="RotoPaint", name="RotoPaint_AI")
        return f"Wrote {path}, read back to {error:.4f} px: import it in Nuke"


class Window(QMainWindow):
    """The panel as a program of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.panel = Panel(Standalone())
        self.setCentralWidget(self.panel)
        self.setWindowTitle("RotoPaint AI")
        self.resize(1440, 900)
        self.panel.plate_opened.connect(self._name)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save, and leave no process behind."""
        self.panel.shut_down()
        super().closeEvent(event)

    def _name(self) -> None:
        plate = self.panel.session.plate
        if plate is not None:
            self.setWindowTitle(f"{plate.name} - RotoPaint AI")


def main(source: str | None = None, out: Path | None = None) -> int:
    """Show the window, with a plate when one is given; returns the exit code when it is closed."""
    application = QApplication.instance() or QApplication(["rotopaint"])
    assert isinstance(application, QApplication)
    application.setStyle("Fusion")
    window = Window()
    window.show()
    if source is not None:
        window.panel.open_plate(PlateChoice(source), out)
    signal.signal(signal.SIGINT, lambda number, frame: application.quit())
    heartbeat = QTimer()  # lets Python see the signal while Qt waits
    heartbeat.timeout.connect(lambda: None)
    heartbeat.start(250)
    code = application.exec()
    window.panel.shut_down()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
