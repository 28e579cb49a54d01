"""The window of preferences, drawn from the table of settings: never modal, changes apply at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QLabel,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ui.settings.preferences import SETTINGS, Preferences, Setting, default_path
from rotopaint_ui.standalone.shortcuts_editor import ShortcutsEditor
from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.focus import Presser
from rotopaint_ui.widgets.tab_widgets import level, padded_box


class PreferencesWindow(QWidget):
    """Shows preferences and calls `then` at each change."""

    def __init__(
        self, preferences: Preferences, views: Sequence[str], then: Callable[[Preferences], None], parent: QWidget
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("rotopaint_window")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setStyleSheet(dialogs.style())
        self.setWindowTitle("Preferences")
        self._preferences, self._views, self._then = preferences, views, then
        self.fields: dict[str, QSpinBox | QDoubleSpinBox | QComboBox] = {}
        self.shortcuts = ShortcutsEditor(preferences)
        self.shortcuts.changed.connect(self._change_to)
        tabs = QTabWidget()
        tabs.setDocumentMode(True)
        tabs.addTab(self._general(), "General")
        tabs.addTab(self.shortcuts, "Shortcuts")
        column = dialogs.remove_margins(QVBoxLayout(self))
        column.addWidget(tabs)
        self.tabs = tabs
        self.resize(720, 560)
        Presser(self, closes=True)

    def _general(self) -> QWidget:
        page = QWidget()
        form = QFormLayout(page)
        form.setContentsMargins(18, 18, 18, 18)
        form.setVerticalSpacing(5)
        form.setHorizontalSpacing(14)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.FieldsStayAtSizeHint)
        for setting in SETTINGS:
            field = self._field(setting)
            self.fields[setting.name] = field
            form.addRow(setting.label, field)
            about = QLabel(setting.about)
            about.setObjectName("note")
            form.addRow("", about)
        level(form)
        where = QLabel(f"Kept in {default_path()}")
        where.setObjectName("note")
        where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        form.addRow("", where)
        return page

    def _field(self, setting: Setting) -> QSpinBox | QDoubleSpinBox | QComboBox:
        value = getattr(self._preferences, setting.name)
        if isinstance(value, str):
            return self._choice_box(setting, value)
        box: QSpinBox | QDoubleSpinBox
        if isinstance(value, int):
            whole = box = padded_box(QSpinBox())
            whole.setRange(int(setting.low), int(setting.high))
            whole.setSingleStep(int(setting.step))
            whole.setValue(value)
        else:
            real = box = padded_box(QDoubleSpinBox())
            real.setRange(setting.low, setting.high)
            real.setSingleStep(setting.step)
            real.setDecimals(1)
            real.setValue(value)
        box.setSuffix(setting.unit)
        box.setKeyboardTracking(False)
        box.setMinimumWidth(140)
        box.setToolTip(setting.about)
        box.setAccessibleName(setting.label)
        box.valueChanged.connect(lambda now, name=setting.name: self._set_value(name, now))
        return box

    def _choice_box(self, setting: Setting, value: str) -> QComboBox:
        box = QComboBox()
        box.addItems(list(dict.fromkeys([*(setting.choices or (value, *self._views))])))
        box.setCurrentText(value)
        box.setMinimumWidth(140)
        box.setToolTip(setting.about)
        box.setAccessibleName(setting.label)
        box.activated.connect(lambda index, name=setting.name: self._set_value(name, box.currentText()))
        return box

    def _set_value(self, name: str, value: object) -> None:
        self._change_to(replace(self._preferences, **{name: value}))  # type: ignore[arg-type]

    def _change_to(self, changed: Preferences) -> None:
        self._preferences = changed
        self.shortcuts.refresh(changed)
        self._then(changed)
