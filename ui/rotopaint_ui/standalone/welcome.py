"""The welcome page while no plate is open: open a plate, the sample shot, or a recent shot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from rotopaint_ui.standalone.recent_paths import shown_path

MOST_SHOWN = 5
_BELOW_PX = 48  # from the middle of the viewer, where it says what can be dropped
_STEPS = "1  Open a plate     2  Drag a box around the face     3  Run     4  N, and correct     5  Export"


class Welcome(QFrame):
    """The welcome page in the lower half of the viewer: recent paths and buttons; both call the given functions."""

    def __init__(
        self,
        canvas: QWidget,
        recent: Sequence[str],
        *,
        choose: Callable[[], None],
        open_path: Callable[[str], None],
        sample: Callable[[], None],
    ) -> None:
        super().__init__(canvas)
        self.setObjectName("welcome")
        self._open_path, self._canvas = open_path, canvas
        self.open, self.sample = QPushButton("Open a plate"), QPushButton("Try the sample shot")
        self.open.setObjectName("strong")
        self.sample.setToolTip("24 frames of a rendered puppet; results go to your own folder")
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.open)
        buttons.addWidget(self.sample)
        buttons.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setSpacing(10)
        self._column.addLayout(buttons)
        steps = QLabel(_STEPS)
        steps.setObjectName("note")
        self._column.addWidget(steps, 0, Qt.AlignmentFlag.AlignHCenter)
        self._fixed_px = self.sizeHint().height()  # without recent shots
        self.recent = [self._recent_button(path) for path in recent[:MOST_SHOWN]]
        self.open.clicked.connect(choose)
        self.sample.clicked.connect(sample)
        self._canvas.installEventFilter(self)
        self._centre()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the page in the middle of the viewer."""
        if event.type() == QEvent.Type.Resize:
            self._centre()
        return False

    def _recent_button(self, path: str) -> QWidget:
        button = QPushButton(shown_path(path).replace("&", "&&"))
        button.setObjectName("link")
        button.setToolTip(path)
        button.clicked.connect(partial(self._open_path, path))
        self._column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        return button

    def _centre(self) -> None:
        top = self._canvas.height() // 2 + _BELOW_PX
        self._show_recent(self._canvas.height() - top)
        size = self.sizeHint()
        self.resize(size)
        self.move((self._canvas.width() - size.width()) // 2, top)

    def _show_recent(self, room: int) -> None:
        """Show as many recent shots as fit into `room` pixels; File, Open recent has them all."""
        left = room - self._fixed_px
        for button in self.recent:
            left -= button.sizeHint().height() + self._column.spacing()
            button.setVisible(left >= 0)
