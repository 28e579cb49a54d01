"""Which keys belong to a widget with the focus inside the panel, and which to the shortcuts.

In Qt shortcuts come before widgets, unless somebody claims the key first. Number boxes, text fields and lists keep the
keys that such widgets use everywhere; with Ctrl or Alt a key is the panel's, but for Ctrl+Backspace and Ctrl+Delete,
which delete a word. Before a shortcut acts, a number that is being typed is taken. Esc undoes what was typed in a
field; Ctrl+Z then undoes only the typing. Return presses the button with the focus, in every window. After a choice,
Return in a field of the panel, or a click on a tab, the viewer gets the focus; after a click on a row of a list it does
not.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QSpinBox,
    QTabBar,
    QTreeView,
    QWidget,
)

_K = Qt.Key
_RETURN = frozenset({_K.Key_Return, _K.Key_Enter})
_PRESSING = _RETURN | {_K.Key_Space}
_WALKING = frozenset({_K.Key_Up, _K.Key_Down, _K.Key_Left, _K.Key_Right, _K.Key_Home, _K.Key_End})
_NUMERALS = "0123456789.,+-"
_SLIDING = _WALKING | {_K.Key_PageUp, _K.Key_PageDown}
_DELETING = frozenset({_K.Key_Backspace, _K.Key_Delete})
_EDITING = _PRESSING | _WALKING | _DELETING
_FIELDS = QAbstractSpinBox | QLineEdit | QComboBox
_PLAIN = Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier
_WORD = Qt.KeyboardModifier.ControlModifier  # held, a key that deletes takes a whole word
_STANDARD = QKeySequence.StandardKey
_HISTORY = (_STANDARD.Undo, _STANDARD.Redo)
_CLIPBOARD = (_STANDARD.Copy, _STANDARD.Cut, _STANDARD.Paste, _STANDARD.SelectAll)
_MODIFIERS = frozenset({_K.Key_Shift, _K.Key_Control, _K.Key_Alt, _K.Key_AltGr, _K.Key_Meta})
Number = QSpinBox | QDoubleSpinBox


class Presser(QObject):
    """Makes Return press the button with the focus in a window; Qt does that only in dialogs."""

    def __init__(self, window: QWidget, *, closes: bool = False) -> None:
        """`closes`: Esc closes the window."""
        super().__init__(window)
        self._window, self._closes = window, closes
        window.installEventFilter(self)  # keys that no child widget has used arrive here

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take a key that no widget wanted."""
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return False
        if self._closes and event.key() == _K.Key_Escape:
            self._window.close()
            return True
        return presses_button(event)


def presses_button(event: QKeyEvent) -> bool:
    """Press the button with the focus, if the key is Return; returns whether it did."""
    button = QApplication.focusWidget()
    if event.key() not in _RETURN or event.modifiers() & ~_PLAIN or not isinstance(button, QAbstractButton):
        return False
    if not event.isAutoRepeat():
        button.click()
    return True


class Guard(QObject):
    """Keeps shortcuts of a panel from keys that belong to its fields, lists and buttons."""

    def __init__(self, panel: QWidget, viewer: QWidget) -> None:
        super().__init__(panel)
        self._viewer = viewer
        self._text = ""  # the value of the focused field before the edit
        panel.installEventFilter(self)  # keys that no child widget has used arrive here
        for choice in panel.findChildren(QComboBox):
            choice.view().installEventFilter(self)  # in a separate window
        for field in panel.findChildren(QLineEdit):
            field.returnPressed.connect(self._hand_on)
            box = field.parent()
            if not isinstance(box, QAbstractSpinBox):
                (box if isinstance(box, QComboBox) else field).installEventFilter(self)
        for rows in panel.findChildren(QAbstractItemView):
            if rows.window().windowType() != Qt.WindowType.Popup:
                _leave_to_tab(rows)
        for tree in panel.findChildren(QTreeView):
            tree.itemDelegate().closeEditor.connect(self._hand_on)  # a name was typed in a row
        for each in panel.findChildren(QAbstractButton) + panel.findChildren(QAbstractSlider):
            _leave_to_tab(each)
            each.installEventFilter(self)
        for tabs in panel.findChildren(QTabBar):
            tabs.tabBarClicked.connect(self._hand_on)  # a tab that goes takes the focus from its field to anywhere
        for box in panel.findChildren(QAbstractSpinBox):
            box.installEventFilter(self)

    def _hand_on(self) -> None:
        """After a choice, give the focus to the viewer once Qt is done with the widget."""
        QTimer.singleShot(0, self._viewer, self._viewer.setFocus)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Claim a key for the widget before it becomes a shortcut."""
        if isinstance(watched, QSpinBox | QDoubleSpinBox):
            return isinstance(event, QKeyEvent) and self._in_number(watched, event)
        if isinstance(watched, QLineEdit | QComboBox):
            return self._leaves_text(watched, event)
        if event.type() == QEvent.Type.Hide and isinstance(watched, QAbstractItemView):
            self._hand_on()  # a row of an open choice was taken, or none
        is_click = event.type() == QEvent.Type.MouseButtonPress
        if is_click and isinstance(QApplication.focusWidget(), _FIELDS):
            self._viewer.setFocus()  # what was typed holds, and the keys that follow are the viewer's
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return presses_button(event)
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return False
        in_choice = watched if isinstance(watched, QAbstractItemView) else None
        is_taken = takes_keys(in_choice or QApplication.focusWidget(), event)
        if is_taken:
            event.accept()
        return is_taken and not (in_choice and event.key() in _RETURN)  # Qt takes the row upon this very event

    def _leaves_text(self, field: QLineEdit | QComboBox, event: QEvent) -> bool:
        """On Esc, restore the old text of a line edit and give the focus to the viewer."""
        if event.type() == QEvent.Type.FocusIn:
            self._text = field.text() if isinstance(field, QLineEdit) else field.currentText()
        if not isinstance(event, QKeyEvent) or event.key() != _K.Key_Escape:
            return False
        event.accept()
        if event.type() == QEvent.Type.KeyPress:
            (field.setText if isinstance(field, QLineEdit) else field.setEditText)(self._text)
            self._viewer.setFocus()
        return True

    def _in_number(self, box: Number, event: QKeyEvent) -> bool:
        """Handle a key in a number box; returns whether the box must not get it."""
        leaves = event.key() == _K.Key_Escape and is_typed(box)
        if event.type() == QEvent.Type.KeyPress:
            if leaves:
                box.setValue(box.value())  # type: ignore[arg-type]  # what stood there before it was typed over
                self._viewer.setFocus()
            elif event.key() in _RETURN:
                self._hand_on()  # the box has taken the number by then
            return leaves
        if event.type() != QEvent.Type.ShortcutOverride:
            return False
        if leaves:
            event.accept()
            return True
        return _is_left(box, event)


def _is_left(box: Number, event: QKeyEvent) -> bool:
    """Whether a number box leaves a key to the shortcuts: letters, and undo while nothing is being typed."""
    is_history = any(event.matches(each) for each in _HISTORY)
    is_letter = event.text().isalpha() and not event.modifiers() & ~_PLAIN
    is_ours = is_letter or (is_history and not is_typed(box))
    if is_ours:
        event.ignore()
    is_typing = takes_keys(box, event) or any(event.matches(each) for each in (*_HISTORY, *_CLIPBOARD))
    if not is_typing and event.key() not in _MODIFIERS:
        box.interpretText()  # before a shortcut shows another shape or frame
    return is_ours


def is_typed(box: Number) -> bool:
    """Whether a number box holds typed text that it has not reported yet."""
    return box.hasFocus() and box.cleanText() != box.textFromValue(box.value())  # type: ignore[arg-type]  # its own kind


def take_typed(window: QWidget) -> None:
    """Take what is being typed in a field of a window that goes away, as if the focus left the field."""
    field = window.focusWidget()
    if isinstance(field, QAbstractSpinBox):
        field.interpretText()
    if field is not None:
        field.clearFocus()


def _leave_to_tab(widget: QWidget) -> None:
    """Let a widget take the focus by Tab but not by a click, which leaves the keys to the viewer."""
    if widget.focusPolicy() & Qt.FocusPolicy.ClickFocus == Qt.FocusPolicy.ClickFocus:
        widget.setFocusPolicy(Qt.FocusPolicy.TabFocus)


def takes_keys(widget: QWidget | None, event: QKeyEvent) -> bool:
    """Whether a key belongs to the widget with the focus, and may not be a shortcut."""
    if event.modifiers() & ~_PLAIN:
        takes_word = event.key() in _DELETING and not event.modifiers() & ~(_PLAIN | _WORD)
        return takes_word and isinstance(widget, _FIELDS)
    if isinstance(widget, QAbstractItemView) and widget.window().windowType() != Qt.WindowType.Popup:
        return event.key() in _WALKING
    if isinstance(widget, QAbstractSpinBox):
        return event.key() in _EDITING or (bool(event.text()) and event.text() in _NUMERALS)  # letters are not numbers
    if isinstance(widget, QLineEdit | QComboBox | QAbstractItemView):
        return event.key() in _EDITING or (event.text().isprintable() and bool(event.text()))
    if isinstance(widget, QAbstractSlider | QTabBar):
        return event.key() in _SLIDING
    return isinstance(widget, QAbstractButton) and event.key() in _PRESSING
