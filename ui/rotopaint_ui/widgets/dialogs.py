"""The style sheet, and the file dialogs that windows may show. None of them is modal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget


def style() -> str:
    """The style sheet."""
    folder = Path(__file__).resolve().parents[1] / "resources"
    return (folder / "panel.qss").read_text(encoding="utf-8").replace("RESOURCES", folder.as_posix())


def dress(application: QApplication) -> None:
    """Apply the dark style where the style sheet does not reach: Qt's own windows, and edges of open lists."""
    application.setStyle("Fusion")
    application.setPalette(QPalette(QColor("#31353e"), QColor("#1b1d22")))


def ask_for_file(
    parent: QWidget, title: str, then: Callable[[str], None], filter: str = "", beside: Path | None = None
) -> QFileDialog:
    """Ask for a file; the panel stays usable meanwhile. `beside`: a path whose folder is shown first."""
    dialog = _open_dialog(parent, title, then, QFileDialog.FileMode.ExistingFile, filter)
    folder = beside if beside is None or beside.is_dir() else beside.parent
    if folder is not None and folder.is_dir():
        dialog.setDirectory(str(folder))
    return dialog


def ask_for_folder(parent: QWidget, title: str, then: Callable[[str], None]) -> QFileDialog:
    """Ask for a folder; the panel stays usable meanwhile."""
    return _open_dialog(parent, title, then, QFileDialog.FileMode.Directory, "")


def ask_where(parent: QWidget, title: str, then: Callable[[str], None], filter: str) -> QFileDialog:
    """Ask for the path of a file to write; the panel stays usable meanwhile."""
    dialog = _open_dialog(parent, title, then, QFileDialog.FileMode.AnyFile, filter)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    return dialog


def remove_margins(layout: Any) -> Any:
    """A layout without margins and spacing."""
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    return layout


def _open_dialog(
    parent: QWidget, title: str, then: Callable[[str], None], mode: QFileDialog.FileMode, filter: str
) -> QFileDialog:
    dialog = QFileDialog(parent, title)
    dialog.setFileMode(mode)
    if filter:
        dialog.setNameFilter(filter)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setModal(False)
    dialog.fileSelected.connect(then)
    dialog.show()
    return dialog
