"""The rows around the viewer: shot and Run above, look and overlays over it, tools at its left, status below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QAction, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSlider,
    QToolButton,
    QWidget,
)

from rotopaint_ai.frames import summarise
from rotopaint_ui.engine.frame_cache import CHANNELS, DisplayLook
from rotopaint_ui.session.shot_files import PlateFacts, shot_name
from rotopaint_ui.settings.preferences import STUDIO
from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.tab_widgets import ElidedLabel, leave_wheel

DEFAULT_PACK = "default pack"
_GROUPS_APART = "   "  # values, place, frame, magnification
_PROXIES = (("Full", 1), ("Half", 2), ("Quarter", 4))
_ABOUT_VIEWS = "View of OCIO's built-in studio config, on an sRGB display; below them those of $OCIO"
_READOUT_PX = 260  # width for place, frame and magnification under the mouse
_ICON_PX, _LEAST_ICON_PX, _STRIP_GAP_PX = 22, 14, 3  # size of a tool button, and gap between tools
_GROUP_GAP_PX = 9  # between groups of tools
COLUMN_PX = 35  # what a second column of tools adds
STRIP_PX = 42  # a tool's button with the style sheet's padding, and air
_REASON = re.compile(r" \([^()]*\)(?=,|$)")  # why a device was taken, behind its name: the library's words
W = TypeVar("W", bound=QWidget)


class TopBar(QFrame):
    """The shot, the model pack, the device that ran, Run and Export."""

    pack_chosen = Signal()  # another pack, once its name is complete
    face_chosen = Signal(str)  # a name other than the current face's, typed or chosen from the list

    def __init__(self, open_label: str, export_label: str, history: Sequence[QAction]) -> None:
        super().__init__()
        self.setObjectName("top_bar")
        self.open = QPushButton(open_label)
        self.name = _with_name(ElidedLabel("No plate"), "shot_name")
        self.facts = _with_name(ElidedLabel(""), "shot_facts")
        self.facts.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.pack = QComboBox()
        self.pack.setEditable(True)
        self.pack.setMinimumWidth(150)
        self.pack.setToolTip("Model pack: a name, or a folder")
        self.pack.addItem(DEFAULT_PACK)
        completer = self.pack.completer()
        popup = None if completer is None else completer.popup()
        if popup is not None:
            popup.setStyleSheet(dialogs.style())  # a separate window, to which the panel's style does not apply
        self.face = QComboBox()
        self.face.setEditable(True)
        self.face.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.face.setMinimumWidth(96)
        self.face.setAccessibleName("Face")
        self.face.setToolTip(
            "The face in hand. Type its character's name and Return; another name then takes another face of the shot"
        )
        self.device = _with_name(ElidedLabel(""), "device_line")
        self.run = _with_name(QPushButton("Run"), "run")
        self.run_all = QPushButton("Run all")
        self.run_all.setToolTip("The whole shot, whatever In and Out are (Ctrl+Alt+Return)")
        self.run_all.hide()
        self._folders: dict[str, str] = {}  # of packs that are not installed, by the name they are shown by
        self._range, self._is_running, self._emitted_pack = "", False, self.chosen_pack
        self.export = QPushButton(export_label)
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 6, 10, 6)
        row.setSpacing(10)
        row.addWidget(self.open)
        for action in history:
            row.addWidget(button_of(action, 18))
        row.addWidget(self.name)
        row.addWidget(self.facts, 1)
        for widget in (self.device, self.face, self.pack, self.run, self.run_all, self.export):
            row.addWidget(widget)
        leave_wheel(self, self.face, self.pack)
        self._face = ""
        named = self.face.lineEdit()
        assert named is not None
        named.setPlaceholderText("Face")
        named.editingFinished.connect(self._tell_face)
        self.face.textActivated.connect(lambda text: self._tell_face())
        self.pack.textActivated.connect(lambda text: self._tell_pack())
        typed = self.pack.lineEdit()
        assert typed is not None
        typed.editingFinished.connect(self._tell_pack)
        self._label_run()

    def _tell_pack(self) -> None:
        if self.chosen_pack != self._emitted_pack:
            self._emitted_pack = self.chosen_pack
            self.pack_chosen.emit()

    def _tell_face(self) -> None:
        text = self.face.currentText().strip()
        if text and text != self._face:
            self.face_chosen.emit(text)
        self.face.setCurrentText(self._face)  # as it is called, where it was taken

    def show_faces(self, names: Sequence[str], face: str) -> None:
        """Show the faces of the shot, and the current one."""
        if (list(names), face) != ([self.face.itemText(row) for row in range(self.face.count())], self._face):
            self._face = face
            self.face.clear()
            self.face.addItems(list(names))
            self.face.setCurrentText(face)

    def show_pack(self, name: str | None) -> None:
        """Choose a pack; None: the default one."""
        self.pack.setCurrentText(self._shown_as(name or DEFAULT_PACK))
        self._tell_pack()

    def _shown_as(self, name: str) -> str:
        return next((text for text, folder in self._folders.items() if folder == name), name)

    def show_plate(self, plate: PlateFacts) -> None:
        """Show name and facts of the open plate."""
        self.name.setText(shot_name(plate))
        self.name.setToolTip(plate.source)
        facts = f"{plate.width} x {plate.height}   {plate.first}-{plate.last}   {plate.colourspace}, {plate.bit_depth}"
        if plate.pixel_aspect != 1.0:
            facts += f"   pixel aspect {plate.pixel_aspect:g}"
        if plate.missing:
            facts += f"   missing {summarise(plate.missing)}"
        self.facts.setText(facts)
        self.facts.setToolTip(f"{plate.source}\n{facts}")

    def show_running(self, running: bool) -> None:
        """Turn Run into Stop while a run is in progress."""
        self._is_running = running
        self._label_run()
        self.run.setProperty("running", running)
        _polish(self.run)

    def show_range(self, text: str) -> None:
        """Show on Run the range between In and Out, if only that runs."""
        if text != self._range:
            self._range = text
            self._label_run()

    def show_waiting(self, project: str) -> None:
        """Show the name of a project whose plate is missing."""
        self.name.setText(project)
        self.name.setToolTip(project)
        self.facts.setText("waits for its plate")
        self.facts.setToolTip("")

    def _label_run(self) -> None:
        what = f"frames {self._range}, between In and Out" if self._range else "the whole shot"
        self.run.setText("Stop" if self._is_running else f"Run {self._range}".strip())
        self.run.setToolTip(f"Landmarks, shapes, mattes and clean plate of {what} (Ctrl+Return)")
        self.run_all.setVisible(bool(self._range) and not self._is_running)

    def show_device(self, text: str, wanted: str = "auto") -> None:
        """Show the device that was used, as a warning where another was requested; the tool tip gives the reason."""
        is_other = bool(text) and wanted not in ("auto", "cpu") and text.lower().startswith("cpu")
        short = _REASON.sub("", text)
        self.device.setText(f"{wanted} was asked for: {short}" if is_other else short)
        self.device.setToolTip(f"{text}\nThe device that the last run really used, and its speed")
        self.device.setProperty("kind", "trouble" if is_other else "plain")
        _polish(self.device)

    def show_packs(self, names: Sequence[str], folders: Sequence[str] = ()) -> None:
        """Offer these packs, those in folders by the folder's name; the chosen one stays chosen."""
        text = self.pack.currentText()
        chosen = self._folders.get(text, text)
        self._folders = {name: folder for folder in reversed(folders) if (name := Path(folder).name) not in names}
        self.pack.clear()
        self.pack.addItems([DEFAULT_PACK, *names, *self._folders])
        for row, name in enumerate([DEFAULT_PACK, *names, *self._folders]):
            self.pack.setItemData(row, self._folders.get(name), Qt.ItemDataRole.ToolTipRole)
        self.pack.setCurrentText(self._shown_as(chosen))

    @property
    def chosen_pack(self) -> str | None:
        """The pack to run with; None: the default one."""
        text = self.pack.currentText().strip()
        return None if text in ("", DEFAULT_PACK) else self._folders.get(text, text)


class Slider(QWidget):
    """A labelled slider over a range of numbers; a double click resets it."""

    changed = Signal(float)

    def __init__(self, label: str, low: float, high: float, start: float, *, steps: int, short: str) -> None:
        """`short`: the label to show where the full one does not fit."""
        super().__init__()
        self._low, self._high, self._start, self._steps = low, high, start, steps
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, steps)
        self._slider.setMinimumWidth(44)  # where the window is small
        self._slider.setMaximumWidth(110)
        self._slider.setToolTip(f"{label}: the viewer only, never the plate. Double click resets.")
        self._label, self._short = label, short
        self._name = QLabel(label)
        self._text = _with_name(QLabel(), "readout")
        self._text.setMinimumWidth(38)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self._name)
        row.addWidget(self._slider)
        row.addWidget(self._text)
        self.set_value(start)
        self._slider.valueChanged.connect(self._tell_value)
        self._slider.installEventFilter(self)

    @property
    def value(self) -> float:
        """The current number."""
        return self._low + (self._high - self._low) * self._slider.value() / self._steps

    def set_value(self, value: float) -> None:
        """Set the number."""
        self._slider.setValue(round((value - self._low) / (self._high - self._low) * self._steps))
        self._text.setText(f"{self.value:+.2f}" if self._low < 0 else f"{self.value:.2f}")

    def show_short(self, is_short: bool) -> None:
        """Show the short label, or the full one."""
        self._name.setText(self._short if is_short else self._label)

    def least_width(self) -> int:
        """Return the least width in pixels with the label that is shown."""
        return self._row.minimumSize().width()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Reset to the initial value."""
        self.set_value(self._start)

    def eventFilter(self, watched: object, event: object) -> bool:
        """Reset on a double click on the slider itself."""
        if isinstance(event, QMouseEvent) and event.type() == QMouseEvent.Type.MouseButtonDblClick:
            self.set_value(self._start)
            return True
        return False

    def _tell_value(self) -> None:
        self.set_value(self.value)
        self.changed.emit(self.value)


class ViewBar(QFrame):
    """The display transform, overlays, and what is under the mouse."""

    look_changed = Signal(DisplayLook)

    def __init__(self, actions: Sequence[QAction]) -> None:
        super().__init__()
        self.setObjectName("view_bar")
        self.exposure = Slider("Exposure", -6.0, 6.0, 0.0, steps=240, short="f")
        self.gamma = Slider("Gamma", 0.2, 3.8, 1.0, steps=180, short="\u03b3")
        self.view = QComboBox()
        self.view.setMaximumWidth(190)  # a studio's names may be long; the list shows them whole
        self.view.setMinimumWidth(96)
        self.view.currentTextChanged.connect(self._name_view)
        self._add_views([DisplayLook().view])
        self.channel = QComboBox()
        self.channel.addItems(list(CHANNELS))
        self.channel.setToolTip("Channel that is shown (Ctrl+Alt+R, G, B, A, Y)")
        self.channel.setAccessibleName("Channel")
        self.proxy = QComboBox()
        for label, factor in _PROXIES:
            self.proxy.addItem(label, factor)
        self.proxy.setToolTip("Size of the pictures in the viewer: smaller ones play from less memory")
        self.proxy.setAccessibleName("Proxy")
        self.readout = _with_name(QLabel(""), "readout")
        self.readout.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.readout.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(10, 3, 10, 3)
        row.setSpacing(8)
        self._values = ""  # under the mouse
        self.readout.installEventFilter(self)
        self._choices = (self.view, self.channel, self.proxy)
        for widget in (self.exposure, self.gamma, *self._choices):
            row.addWidget(widget)
        row.addWidget(self.readout, 1)
        self._buttons = [button_of(action, 18) for action in actions]
        for button in self._buttons:
            row.addWidget(button)
        self._fit_labels()
        for slider in (self.exposure, self.gamma):
            slider.changed.connect(self._tell_value)
        leave_wheel(self, *self._choices)
        for choice in self._choices:
            choice.currentTextChanged.connect(self._tell_value)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten the sliders' labels where the values under the mouse need the room."""
        super().resizeEvent(event)
        self._fit_labels()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Fit the row again when the readout changes its width."""
        if event.type() == QEvent.Type.Resize:
            self._fit_readout()
        return False

    def _fit_labels(self) -> None:
        self._shorten_labels(True)
        self.setMinimumWidth(self._wanted_width())
        self._shorten_labels(False)
        if self._wanted_width() + _READOUT_PX > self.width():
            self._shorten_labels(True)

    def _shorten_labels(self, are_short: bool) -> None:
        for slider in (self.exposure, self.gamma):
            slider.show_short(are_short)

    def _wanted_width(self) -> int:
        """Return the least width of the row in pixels with its labels as they are, without what is under the mouse."""
        sliders = sum(slider.least_width() for slider in (self.exposure, self.gamma))
        choices = sum(each.minimumWidth() or each.minimumSizeHint().width() for each in self._choices)
        buttons = sum(each.sizeHint().width() for each in self._buttons)
        margins = self._row.contentsMargins()
        gaps = (self._row.count() - 1) * self._row.spacing() + margins.left() + margins.right()
        return sliders + choices + buttons + gaps

    def show_readout(self, text: str) -> None:
        """Show the values under the mouse; where they do not fit, hide the plate's values first."""
        self._values = text
        self._fit_readout()

    def _fit_readout(self) -> None:
        groups = self._values.split(_GROUPS_APART)
        while groups and self._width_of(groups) > self.readout.width():
            groups.pop(0)
        self.readout.setText(_GROUPS_APART.join(groups))

    def _width_of(self, groups: Sequence[str]) -> int:
        return self.readout.fontMetrics().horizontalAdvance(_GROUPS_APART.join(groups))

    @property
    def look(self) -> DisplayLook:
        """The current exposure, gamma, view, channel and proxy."""
        return DisplayLook(
            round(self.exposure.value, 3),
            round(self.gamma.value, 3),
            self.view.currentData() or DisplayLook().view,
            self.channel.currentText(),
            self.proxy.currentData(),
        )

    def show_views(self, names: Sequence[str]) -> None:
        """Offer these views; the chosen one stays chosen."""
        chosen = self.look.view
        self.view.blockSignals(True)
        self.view.clear()
        self._add_views(list(dict.fromkeys([chosen, *names])))
        self.view.blockSignals(False)

    @property
    def view_names(self) -> list[str]:
        """The views that are offered, as the display calls them."""
        return [str(self.view.itemData(row)) for row in range(self.view.count())]

    def start_with(self, name: str) -> None:
        """The view that is chosen before a plate is open."""
        self.show_views([name])
        self.view.setCurrentIndex(self.view.findData(name))

    def _add_views(self, names: Sequence[str]) -> None:
        for name in names:
            self.view.addItem(name if name.startswith(STUDIO) else f"{name} (sRGB)", name)

    def _name_view(self, name: str) -> None:
        self.view.setToolTip(f"{name}\n{_ABOUT_VIEWS}")

    def _tell_value(self) -> None:
        self.look_changed.emit(self.look)


class ToolStrip(QScrollArea):
    """Tools and jumps in one column; where they do not fit, with smaller icons, then in two columns that scroll."""

    def __init__(self, groups: Sequence[Sequence[QAction]]) -> None:
        super().__init__()
        self.setObjectName("tool_strip")
        inside = QWidget()
        inside.setObjectName("tool_strip")
        self._groups = [[button_of(action, _ICON_PX) for action in group] for group in groups]
        self._buttons = [button for group in self._groups for button in group]
        self._grid = QGridLayout(inside)
        self._grid.setContentsMargins(3, 6, 3, 6)
        self._grid.setHorizontalSpacing(0)
        self._n_columns = 0
        self._fitted_px = 0  # height that the buttons were last fitted to
        self._place(1)
        self.setWidget(inside)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Make the buttons as large as the room allows, within limits.

        A second column changes the width, which is one more such event; only another height is fitted to again.
        """
        super().resizeEvent(event)
        if event.size().height() == self._fitted_px:
            return
        self._fitted_px = event.size().height()
        if not self._fits_in(1):
            self._fits_in(2)

    def _fits_in(self, n_columns: int) -> bool:
        """Place the buttons in `n` columns with the largest icons that fit; False where none do."""
        self._place(n_columns)
        self._show_size(_ICON_PX, _STRIP_GAP_PX)
        n_rows = sum(-(-len(group) // n_columns) for group in self._groups)
        missing = self._missing_px()
        if missing > 0:
            missing -= _STRIP_GAP_PX * n_rows
            self._show_size(max(_ICON_PX - max(-(-missing // n_rows), 0), _LEAST_ICON_PX), 0)
        return self._missing_px() <= 0

    def _missing_px(self) -> int:
        return self._grid.sizeHint().height() - self.viewport().height()

    def _place(self, n_columns: int) -> None:
        """Lay the groups out below each other, in rows of so many buttons."""
        if n_columns == self._n_columns:
            return
        self._n_columns = n_columns
        for row in range(self._grid.rowCount()):
            self._grid.setRowStretch(row, 0)
            self._grid.setRowMinimumHeight(row, 0)
        row = 0
        for group in self._groups:
            if row:
                self._grid.setRowMinimumHeight(row, _GROUP_GAP_PX)
                row += 1
            for index, button in enumerate(group):
                self._grid.addWidget(button, row + index // n_columns, index % n_columns)
            row += -(-len(group) // n_columns)
        self._grid.setRowStretch(row, 1)
        self.setFixedWidth(STRIP_PX + (n_columns - 1) * COLUMN_PX)

    def _show_size(self, icon_px: int, gap_px: int) -> None:
        for button in self._buttons:
            button.setIconSize(QSize(icon_px, icon_px))
        self._grid.setVerticalSpacing(gap_px)


def button_of(action: QAction, size: int) -> QToolButton:
    """A tool button for an action; its tooltip names the action's keys."""
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(size, size))
    button.setAutoRaise(True)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setAccessibleName(action.text())
    return button


def _with_name(widget: W, name: str) -> W:
    widget.setObjectName(name)
    return widget


def _polish(widget: QWidget) -> None:
    """Apply the style sheet again after a property has changed."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)
