"""Work through the sample shot as an artist, with real mouse and keys, and save a picture of each step for the guide.

Needs an X display and xdotool; on a Debian machine without a screen (`apt-get install xvfb xdotool libegl1
libxkbcommon-x11-0 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-render-util0 libxcb-shape0`):

    xvfb-run -s "-screen 0 1500x960x24" python scripts/guide.py docs/guide

`moving.png`, at the top of the README, is an animation of some of the steps. On a high-density screen
(`QT_SCALE_FACTOR=2`) the pictures have twice the pixels. Every step is checked: the script ends with an error where a
click or a key did not do what the guide says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from math import hypot
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QWidget

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.inference.sample import find_sample
from rotopaint_ui.batch.queue import QueuedShot, QueueStatus
from rotopaint_ui.engine.frame_cache import PLATE
from rotopaint_ui.standalone.app import MainWindow
from rotopaint_ui.widgets.dialogs import dress

SIZE = (1440, 900)
WIDTH = 1120  # size of a picture in the guide
MOVING = {"04_worst": 1500, "05_landmark": 1500, "05_landmark_set": 1500, "07_spread": 1500, "08_refit": 1500}
MOVING |= {"09_seam_preview": 2000, "12_wipe": 2000, "13_export": 1500, "14_exported": 2500}  # milliseconds
MOVING_WIDTH = 760
PATIENCE_S = 180.0


class Tour:
    """The window, the mouse and keyboard that drive it, and the folder of pictures."""

    def __init__(self, application: QApplication, window: MainWindow, folder: Path) -> None:
        self.application, self.window, self.folder = application, window, folder
        self.moving: dict[str, QImage] = {}
        self.panel, self.session = window.panel, window.panel.session
        self.truth = documents.read(find_sample() / "truth.roto.json")

    # --- the hand

    def wait(self, what: str, holds: Callable[[], object]) -> None:
        """Process events until a condition is true."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.application.processEvents()
            time.sleep(0.01)
            if time.monotonic() > end:
                sys.exit(f"guide: {what} did not come; the status says: {self.panel.status.text.text()}")
        self.rest(0.2)

    def rest(self, seconds: float) -> None:
        """Process events for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.application.processEvents()
            time.sleep(0.01)

    def hand(self, *words: object) -> None:
        """Send real events by xdotool."""
        process = subprocess.Popen(["xdotool", *map(str, words)])
        while process.poll() is None:
            self.application.processEvents()
            time.sleep(0.002)
        if process.returncode:
            sys.exit(f"guide: xdotool {' '.join(map(str, words))} ended with {process.returncode}")
        self.rest(0.05)

    def point(self, widget: QWidget, place: QPoint | QPointF | None = None) -> None:
        """Move the mouse over a widget."""
        inside = widget.rect().center() if place is None else QPointF(place).toPoint()
        goal = widget.mapToGlobal(inside) * self.window.devicePixelRatioF()
        self.hand("mousemove", goal.x(), goal.y())

    def click(self, widget: QWidget, place: QPoint | QPointF | None = None) -> None:
        """Click at a place."""
        self.point(widget, place)
        self.hand("click", 1)
        self.rest(0.15)

    def drag(self, widget: QWidget, start: QPointF, end: QPointF, halfway: str = "") -> None:
        """Drag in small steps; `halfway` saves a picture before the button is released."""
        self.point(widget, start)
        self.hand("mousedown", 1)
        for step in range(1, 13):
            self.point(widget, start + (end - start) * (step / 12))
        self.rest(0.3)
        if halfway:
            self.keep(halfway)
        self.hand("mouseup", 1)
        self.rest(0.2)

    def press(self, keys: str) -> None:
        """Press a key, or several at once."""
        self.hand("key", keys)
        self.rest(0.2)

    def place(self, x: float, y: float) -> QPointF:
        """The viewer's position of a place on the plate."""
        return self.panel.canvas.view.to_screen(x, y)

    # --- pictures

    def keep(self, name: str, window: QWidget | None = None) -> None:
        """Save a picture of the screen; widgets show the state of the mouse."""
        self.rest(0.3)
        picture = self.film(name, window)
        width = round(WIDTH * self.window.devicePixelRatioF())
        if picture.width() > width:
            picture = picture.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)
        picture.convertToFormat(QImage.Format.Format_RGB888).save(str(self.folder / f"{name}.png"))
        print(f"{name}: {self.panel.status.text.text()}", flush=True)

    def film(self, name: str, window: QWidget | None = None) -> QImage:
        """Save the screen for the animation."""
        self.moving[name] = (window or self.window).grab().toImage()
        return self.moving[name]

    def keep_moving(self) -> None:
        """Write the animation for the README."""
        animation = cv2.Animation()
        animation.frames = [self._small(self.moving[name]) for name in MOVING]
        animation.durations = np.array(list(MOVING.values()), np.int32)
        cv2.imwriteanimation(str(self.folder / "moving.png"), animation, [cv2.IMWRITE_PNG_COMPRESSION, 9])

    @staticmethod
    def _small(picture: QImage) -> npt.NDArray[np.uint8]:
        small = picture.scaledToWidth(MOVING_WIDTH, Qt.TransformationMode.SmoothTransformation)
        small = small.convertToFormat(QImage.Format.Format_BGR888)
        rows = np.frombuffer(small.constBits(), np.uint8).reshape(small.height(), small.bytesPerLine())
        return rows[:, : 3 * small.width()].reshape(small.height(), small.width(), 3).copy()

    # --- the steps

    def open(self) -> None:
        """Open the sample shot from the empty window."""
        self.rest(0.5)
        self.keep("01_empty")
        self.click(self.window.welcome.sample)
        self.wait("the plate", lambda: self.session.plate and self.panel.frame_cache.image(PLATE, 1001))
        self.wait("the crop box", lambda: self.session.state.crops)
        self.drag(self.panel.canvas, self.place(338, 138), self.place(330, 128))
        assert self.session.state.crops[1001].x < 335
        self.rest(1.0)
        self.keep("02_crop")

    def run(self) -> None:
        """Start a run, and watch its results arrive."""
        self.click(self.panel.top.run)
        self.wait("the first frames", lambda: len(self.session.run.errors) >= 3)
        self.keep("03_running")
        self.wait("the run", lambda: not self.panel.jobs.is_running and self.session.edits.last_step == "run")

    def face(self) -> None:
        """Name the face, so that its shapes become a group; then undo that."""
        before, field = self.session.state, self.panel.top.face
        self.click(field)
        self.hand("type", "Anna")
        self.press("Return")
        self.wait("the face", lambda: self.session.state.face == "Anna")
        self.keep("03_face")
        self.press("ctrl+z")
        assert self.session.state == before

    def look(self) -> None:
        """Go to the worst frame by N."""
        self.click(self.panel.canvas, QPointF(30, 30))
        self.press("n")
        run, reviewed = self.session.run, self.session.reviewed_shapes()
        errors = {frame: run.error_left(frame, {}, reviewed) or 0.0 for frame in run.errors}
        assert errors[self.session.frame] == max(errors.values())
        self.press("f")
        self.rest(1.0)
        self.keep("04_worst")

    def worst_landmark(self) -> tuple[str, QPointF, QPointF]:
        """The landmark with the largest true error, with its position and its true one on the canvas."""
        document, frame = self.session.document, self.session.frame
        assert document is not None
        truth = dict(zip(self.truth.landmarks.names, self.truth.landmarks.keys[frame]))
        found = []
        for name, mark in zip(document.landmarks.names, document.landmarks.keys[frame]):
            place = truth.get(name)
            if mark is not None and place is not None:
                a, b = self.place(mark.x, mark.y), self.place(place.x, place.y)
                found.append((hypot(b.x() - a.x(), b.y() - a.y()), name, a, b))
        return max(found)[1:]

    def drag_worst(self, picture: str) -> None:
        """Drag that landmark to its true position."""
        name, start, end = self.worst_landmark()
        steps = self.session.state
        self.press("l")
        self.drag(self.panel.canvas, start, end, picture)
        self.wait("the shapes", lambda: self.session.state is not steps and not self.session.edits.is_dragging)
        assert self.session.document is not None
        assert name in self.session.document.landmarks.hand[self.session.frame]
        self.film(f"{picture}_set")

    def correct(self) -> None:
        """Drag a landmark, whose shapes follow, and spread the correction over the bracket's range."""
        self.drag_worst("05_landmark")
        timeline = self.panel.timeline
        self.wait("the bracket", lambda: timeline.reach is not None)
        assert timeline.reach is not None
        y = timeline.place_of("reach")
        to = max(timeline.reach.first - 4, 1001)
        start = QPointF(timeline.x_of(timeline.reach.first) + 1, y)
        self.drag(timeline, start, QPointF(timeline.x_of(to) + 4, y), "06_reach")
        assert timeline.reach.first == to
        self.press("Return")
        self.wait("the spread", lambda: self.session.edits.last_step == "spread")
        self.keep("07_spread")

    def rate_frames(self) -> None:
        """Accept, and mark one frame that needs work; refit."""
        self.press("y")
        assert self.session.state.marks[self.session.frame] == "accepted"
        self.press("n")
        self.press("x")
        assert self.session.state.marks[self.session.frame] == "needs work"
        self.click(self.panel.review_bar.buttons["refit"])
        self.wait(
            "the refit", lambda: self.session.edits.last_step == "refit shot" or "already fits" in self.status_text
        )
        self.keep("08_refit")

    def group(self) -> None:
        """Group both eyes and rotate the group at this frame; then undo that."""
        panel, before = self.panel, self.session.state
        tabs, tree = panel.inspector.tabBar(), panel.inspector.shapes.tree
        self.click(tabs, tabs.tabRect(0).center())
        for name in ("eye_left", "eye_right"):
            row = tree.visualItemRect(panel.inspector.shapes.row_of(name))
            self.hand("keydown", "ctrl")
            self.click(tree.viewport(), QPointF(row.left() + 40, row.center().y()))
            self.hand("keyup", "ctrl")
        self.press("ctrl+g")
        assert self.session.selection.layer == "group_1", self.status_text
        self.press("f")
        self.press("t")
        document, frame = self.session.document, self.session.frame
        assert document is not None
        right = max(p for name in self.session.selection.shapes for p in document.shape(name).at(frame))
        start = self.place(right.x, right.y) + QPointF(26, 0)
        self.drag(panel.canvas, start, start + QPointF(-6, 45))
        assert self.session.edits.last_step == "rotate group", self.status_text
        self.keep("06_group")
        for _ in range(2):
            self.press("ctrl+z")
        assert self.session.state == before
        self.press("v")

    @property
    def status_text(self) -> str:
        """The text of the status line."""
        return self.panel.status.text.text()

    def paint(self) -> None:
        """Preview the seam beside the plate, then render the frames that are out of date."""
        tabs, seam = self.panel.inspector.tabBar(), self.panel.inspector.seam
        self.click(tabs, tabs.tabRect(0).center())
        tree = self.panel.inspector.shapes.tree
        row = self.panel.inspector.shapes.row_of("seam_bridge")
        self.click(tree.viewport(), tree.visualItemRect(row).center())
        assert self.session.selection.shape == "seam_bridge"
        self.rename("nose bridge")
        self.click(tabs, tabs.tabRect(2).center())
        self.click(seam.width_px)
        self.press("ctrl+a")
        self.hand("type", "11")
        self.press("Tab")
        assert self.session.seams.of("seam_bridge").width_px == 11.0
        self.click(seam.preview)
        self.wait("the preview", lambda: seam.meter.after is not None and seam.preview_visibility is not None)
        self.press("f")
        self.keep("09_seam_preview")
        self.touch_up()
        self.click(seam.preview)
        self.wait("stale frames", lambda: seam.render_button.isEnabled())
        self.make_a_part()
        self.click(seam.render_button)
        self.wait("the clean plate", lambda: not self.panel.jobs.is_running and not self.panel.session.stale_frames())
        self.click(self.panel.canvas, QPointF(30, 30))
        self.press("w")
        self.rest(1.0)
        self.keep("12_wipe")
        self.press("w")

    def make_a_part(self) -> None:
        """Set In and Out around the last frames and render them, then render the rest."""
        frame, seam = self.session.frame, self.panel.inspector.seam
        self.go_to(1019)
        self.press("i")
        self.go_to(1024)
        self.press("o")
        self.go_to(frame)
        assert self.session.span == (1019, 1024)
        assert seam.render_button.text().startswith("Render 6 frames")
        self.keep("11_range")
        self.click(seam.render_button)
        outside = list(range(1001, 1019))
        self.wait("the range", lambda: not self.panel.jobs.is_running and self.session.stale_frames() == outside)
        self.press("ctrl+i")
        assert self.session.span is None

    def go_to(self, frame: int) -> None:
        """Go to a frame by a click on the timeline."""
        timeline = self.panel.timeline
        self.click(timeline, QPointF(timeline.x_of(frame + 0.5), timeline.place_of("thumbs")))
        assert self.session.frame == frame

    def rename(self, given: str) -> None:
        """Rename the selected shape by F2."""
        self.press("F2")
        self.press("ctrl+a")
        self.hand("type", given)
        self.press("Return")
        self.wait("the name", lambda: self.session.state.names == {"seam_bridge": given})

    def touch_up(self) -> None:
        """Clone skin from below the seam over the remains of the seam."""
        document, frame = self.session.document, self.session.frame
        assert document is not None
        canvas, point = self.panel.canvas, document.shape("seam_bridge").at(frame)[2]
        self.press("k")
        self.point(canvas, self.place(point.x, point.y + 14))
        self.hand("keydown", "ctrl", "click", 1, "keyup", "ctrl")
        self.drag(canvas, self.place(point.x - 8, point.y), self.place(point.x + 8, point.y), "10_touch_up")
        assert self.session.edits.last_step == "clone stroke"
        ends = [document.shape("seam_bridge").at(frame)[k] for k in (1, 3)]
        self.reveal(*(self.place(end.x, end.y) for end in ends))
        self.press("v")

    def reveal(self, start: QPointF, end: QPointF) -> None:
        """Paint the plate back across the seam; then undo that."""
        seam, before = self.panel.inspector.seam, self.session.state
        paints = seam.brush.paints
        self.point(seam)
        for _ in range(40):
            if paints.visibleRegion().boundingRect().height() == paints.height():
                break
            self.hand("click", 5)
        self.click(paints)
        self.press("Down")
        self.press("Return")
        assert self.session.brush.paints == "plate", self.status_text
        self.press("k")
        self.drag(self.panel.canvas, start, end, "10_reveal")
        assert self.session.edits.last_step == "reveal stroke", self.session.edits.last_step
        self.press("ctrl+z")
        assert self.session.state == before
        self.click(paints)
        self.press("Up")
        self.press("Return")
        assert self.session.brush.paints == "clone"

    def export(self) -> None:
        """Reduce keys and export files, each of which is read back."""
        tabs, tab = self.panel.inspector.tabBar(), self.panel.inspector.export
        self.click(tabs, tabs.tabRect(3).center())
        self.wait("the count", lambda: "keys, at most" in tab.count.text())
        self.keep("13_export")
        self.click(self.panel.top.export)
        self.wait("the export", lambda: "read back" in tab.result.text())
        self.keep("14_exported")
        out = Path(tab.folder.text())
        assert (out / "shapes.nk").is_file()

    def others(self) -> None:
        """Open the preferences and the batch window."""
        self.press("ctrl+comma")
        self.wait("preferences", lambda: self.window.preferences_window is not None)
        preferences = self.window.preferences_window
        assert preferences is not None
        self.keep("15_preferences", preferences)
        preferences.tabs.setCurrentIndex(1)
        self.keep("16_shortcuts", preferences)
        preferences.close()
        done = QueuedShot(
            "sq010_sh020", "plates", "/renders/sh020", status=QueueStatus.DONE, done=24, total=24, worst_px=7.4
        )
        self.window.batch.add([done, QueuedShot("sq010_sh030", "plates", "/renders/sh030")])
        self.window.show_batch()
        self.keep("17_batch", self.window.batch)


def main() -> int:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/guide"), help="default: docs/guide")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="rotopaint-guide-"))
    os.environ["ROTOPAINT_PREFERENCES"] = str(own / "preferences.json")
    application = QApplication(["rotopaint"])
    dress(application)
    window = MainWindow()
    window.resize(*SIZE)
    window.move(20, 20)
    window.show()
    tour = Tour(application, window, folder)
    try:
        for step in (
            tour.open,
            tour.run,
            tour.face,
            tour.look,
            tour.correct,
            tour.rate_frames,
            tour.group,
            tour.paint,
            tour.export,
            tour.others,
            tour.keep_moving,
        ):
            step()
    finally:
        print("\n".join(line for line in window.panel.status.history if "\u26a0" in line), flush=True)
        window.close()
        shutil.rmtree(own, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
