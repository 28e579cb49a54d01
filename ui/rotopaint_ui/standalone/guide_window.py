"""F1: the artist's guide from the documentation, in a separate window."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QTextDocument
from PySide6.QtWidgets import QTextBrowser, QVBoxLayout, QWidget

from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.focus import Presser

USUAL_SIZE = QSize(820, 900)
_FRAME_PX = 40  # the title and frame of a window
_MARGIN_PX = 40  # beside pictures: the scroll bar and the text's own margin
MISSING = "The guide is not part of this installation; it stands in docs/guide.md of the product's sources."


def find_guide() -> Path:
    """The path of the guide: in this checkout, or where the wheel installs it."""
    checkout = Path(__file__).parents[3] / "docs" / "guide.md"
    return checkout if checkout.is_file() else Path(sysconfig.get_path("data")) / "share" / "rotopaint" / "guide.md"


class GuidePage(QTextBrowser):
    """The guide's text; pictures are as wide as the window, and left out where they are not installed."""

    def __init__(self) -> None:
        super().__init__()
        self.setOpenLinks(False)
        self.setAccessibleName("Guide")
        self.anchorClicked.connect(self._follow_link)

    def show_guide(self, path: Path) -> None:
        """Show a page of Markdown, or one line where it is missing."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            self.setPlainText(MISSING)
            return
        folder = path.parent
        self.setSearchPaths([str(folder)])
        has_pictures = (folder / "guide").is_dir()
        lines = text.splitlines() if has_pictures else [row for row in text.splitlines() if not row.startswith("![")]
        self.setMarkdown("\n".join(lines))

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """A picture of the guide, scaled down to the width of the page."""
        found = super().loadResource(kind, name)
        if kind != QTextDocument.ResourceType.ImageResource.value or not found:
            return found
        image = found if isinstance(found, QImage) else QImage.fromData(found)
        room = max(self.width() - _MARGIN_PX, 200)
        if image.width() <= room:
            return image
        return image.scaledToWidth(room, Qt.TransformationMode.SmoothTransformation)

    def _follow_link(self, url: QUrl) -> None:
        if url.scheme() in ("http", "https"):
            QDesktopServices.openUrl(url)


class GuideWindow(QWidget):
    """The guide beside the panel; Esc closes it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("rotopaint_window")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setStyleSheet(dialogs.style())
        self.setWindowTitle("Guide - RotoPaint AI")
        self.page = GuidePage()
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 0, 0)
        column.addWidget(self.page)
        self.resize(USUAL_SIZE.boundedTo(self.screen().availableSize() - QSize(0, _FRAME_PX)))
        self.page.resize(self.size())  # pictures are as broad as this
        self.page.show_guide(find_guide())
        Presser(self, closes=True)
