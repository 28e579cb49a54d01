"""The view of a project with a missing plate: where the plate was searched, and a button to locate it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from rotopaint_ui.session.session import ShotSession


class WaitingNote(QFrame):
    """A note in the viewer while a project waits for its plate."""

    wanted = Signal()

    def __init__(self, viewer: QWidget, session: ShotSession) -> None:
        super().__init__(viewer)
        self.setObjectName("welcome")
        self._viewer, self._session = viewer, session
        self._text = QLabel()
        self._text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.relink = QPushButton("Where does it lie now?")
        self.relink.setObjectName("strong")
        self.relink.setToolTip("Choose one frame of the plate: it is compared with what the project remembers")
        self.relink.clicked.connect(self.wanted)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addWidget(self._text)
        column.addWidget(self.relink, 0, Qt.AlignmentFlag.AlignHCenter)
        self.hide()

    def refresh(self) -> None:
        """Show or hide the note for the session's state."""
        session, path = self._session, self._session.project.path
        waits = session.project.awaits_plate and session.plate is None and path is not None
        if waits and path is not None:
            self._text.setText(f"{path.name} is open, its plate is not")
            self.place()
        self.setVisible(waits)

    def place(self) -> None:
        """Move the note to the middle of the viewer."""
        viewer, size = self._viewer, self.sizeHint()
        self.resize(min(size.width(), viewer.width()), size.height())
        self.move((viewer.width() - self.width()) // 2, (viewer.height() - size.height()) // 2)
