"""The standalone app: a window around the panel, which also acts as the panel's host."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QMargins, QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QApplication, QMainWindow

import rotopaint_ai
from rotopaint_ai.errors import RotopaintError, UsageError
from rotopaint_ai.exchange import nuke
from rotopaint_ai.project.state import CropBox
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.batch.batch_window import BatchWindow
from rotopaint_ui.batch.open_shot import queue_open_shot
from rotopaint_ui.batch.queue import QueuedShot
from rotopaint_ui.host import Engine, PlateChoice, find_engine
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.shot_files import shot_name
from rotopaint_ui.settings.preferences import default_path
from rotopaint_ui.standalone.guide_window import GuideWindow
from rotopaint_ui.standalone.menus import Menus
from rotopaint_ui.standalone.preferences_window import PreferencesWindow
from rotopaint_ui.standalone.welcome import Welcome
from rotopaint_ui.widgets.dialogs import dress

QUEUE_NAME = "batch.json"
USUAL_SIZE = QSize(1840, 1000)  # size of the window where the screen has room: most of 1920 x 1080
FRAME = QMargins(0, 30, 0, 0)  # the frame of a window manager, where the window does not fill the screen


class Standalone:
    """The standalone app as the panel's host: reads plates from disk and writes exports to disk."""

    name = "standalone"
    export_label = "Export for Nuke"

    def engine(self) -> Engine:
        """The Python interpreter of this process."""
        return find_engine(own_python=True)

    def chosen_plate(self) -> PlateChoice | None:
        """None, so that the panel asks for a file."""
        return None

    def export(self, document: RotoDocument, shapes: Path) -> str:
        """Write `shapes.nk` beside the document, for pasting into Nuke."""
        path = shapes.with_name("shapes.nk")
        error = nuke.write_verified(path, document, layer="RotoPaint_AI", node="RotoPaint", name="RotoPaint_AI")
        return f"Wrote {path}, read back to {error:.4f} px: import it in Nuke"


class MainWindow(QMainWindow):
    """The window of the standalone panel."""

    def __init__(self) -> None:
        super().__init__()
        host = Standalone()
        self.panel = panel = Panel(host)
        self._session, self._status, self._top = panel.session, panel.status, panel.top
        self._views = panel.view_bar
        self.batch = BatchWindow(default_path().with_name(QUEUE_NAME), host.engine)
        self.preferences_window: PreferencesWindow | None = None
        self.guide: GuideWindow | None = None
        self.batch.shot_wanted.connect(self.open_queued)
        self.setCentralWidget(panel)
        self.setStyleSheet(panel.styleSheet())
        self.setWindowTitle("RotoPaint AI")
        self.menus = Menus(
            self,
            panel.commands,
            recent=self._recent,
            open_path=panel.open_path,
            preferences=self.show_preferences,
            batch=self.show_batch,
            add_to_batch=self.add_to_batch,
            sample=self.open_sample,
            guide=self.show_guide,
            about=self._about,
        )
        self.welcome = Welcome(
            panel.canvas, self._recent(), choose=panel.open_chosen, open_path=panel.open_path, sample=self.open_sample
        )
        panel.plate_opened.connect(self.welcome.hide)
        panel.opening.waits.connect(self.welcome.hide)
        panel.plate_opened.connect(self._name_window)
        room = self.screen().availableSize()
        self.resize(USUAL_SIZE.boundedTo(room))
        if USUAL_SIZE.grownBy(FRAME).boundedTo(room) != USUAL_SIZE.grownBy(FRAME):
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def show_preferences(self) -> None:
        """Show the preferences; changes apply at once."""
        panel, views = self.panel, self._views.view_names
        self.preferences_window = PreferencesWindow(panel.preferences, views, panel.set_preferences, self)
        self.preferences_window.show()

    def show_batch(self) -> None:
        """Show the queue of shots."""
        self.batch.show()
        self.batch.raise_()

    def add_to_batch(self) -> None:
        """Add the open shot, from In to Out, to the queue, with its crop boxes and pack."""
        try:
            shot = queue_open_shot(self._session, self.panel.choice, self._top.chosen_pack)
        except RotopaintError as error:
            self._status.say(str(error), "trouble")
            return
        self.batch.add([shot])
        self.show_batch()

    def show_guide(self) -> None:
        """Show the artist's guide."""
        self.guide = self.guide or GuideWindow(self)
        self.guide.show()
        self.guide.raise_()
        self.guide.activateWindow()

    def open_queued(self, shot: QueuedShot) -> None:
        """Open a shot of the queue with the results in its folder."""
        self.panel.open_plate(PlateChoice(shot.plates, shot.frames, shot.colourspace), Path(shot.out))
        self.raise_()
        self.activateWindow()

    def open_sample(self) -> None:
        """Open the shot that ships with the models; results go to the user's own folder."""
        from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

        try:
            folder = find_sample()
            crop = _crop_of_word(read_crops(folder / CROP_FILE)[0])
        except RotopaintError as error:
            self._status.say(str(error), "trouble")
            return
        out = default_path().parent / "sample"
        self.panel.open_plate(PlateChoice(str(folder)), out, crop)

    def changeEvent(self, event: QEvent) -> None:
        """Hide the menus on the full screen."""
        if event.type() == QEvent.Type.WindowStateChange:
            self.menuBar().setVisible(not self.isFullScreen())
        super().changeEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save, and end all processes."""
        self.batch.shut_down()
        self.batch.hide()  # else the program goes on with it alone
        self.panel.shut_down()
        super().closeEvent(event)

    def _recent(self) -> Sequence[str]:
        return self.panel.preferences.recent

    def _about(self) -> None:
        self._status.say(f"RotoPaint AI {rotopaint_ai.__version__}, Apache-2.0")

    def _name_window(self) -> None:
        plate = self._session.plate
        if plate is not None:
            self.setWindowTitle(f"{shot_name(plate)} - RotoPaint AI")


def _crop_of_word(word: str) -> tuple[int, CropBox]:
    """A crop as the command line writes it: `FRAME:X,Y,W,H`."""
    frame, _, numbers = word.rpartition(":")
    x, y, width, height = (float(number) for number in numbers.split(","))
    return int(frame), CropBox(x, y, width, height)


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Whether windows can be shown; on Linux this needs a display, or a Qt platform that needs none."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return not platform.startswith("linux") or any(environment.get(name) for name in names)


def main(source: str | None = None, out: Path | None = None) -> int:
    """Show the window, with a plate if one is given; returns the exit code once it is closed.

    Raises: UsageError where there is no display, because Qt would abort with a long message.
    """
    if not has_display(os.environ, sys.platform):
        raise UsageError(
            "no display: the panel needs a screen (DISPLAY or WAYLAND_DISPLAY); `rotopaint run` needs none"
        )
    application = QApplication.instance() or QApplication(["rotopaint"])
    assert isinstance(application, QApplication)
    dress(application)
    window = MainWindow()
    window.show()
    if source is not None:
        window.panel.open_path(source, out)
    signal.signal(signal.SIGINT, lambda number, frame: application.quit())
    heartbeat = QTimer()  # lets Python see the signal while Qt waits
    heartbeat.timeout.connect(lambda: None)
    heartbeat.start(250)
    code = application.exec()
    window.batch.shut_down()
    window.panel.shut_down()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
