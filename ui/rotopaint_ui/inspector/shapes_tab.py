"""The Shapes tab: every shape under Seams, Mattes or Hold-outs, with eye, lock, colour, expected error and keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QBrush, QColor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QColorDialog,
    QHeaderView,
    QMenu,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.project.face_groups import face_names, rename_face
from rotopaint_ai.shapes.edit_layers import members, rename_layer
from rotopaint_ai.shapes.manual_keys import manual_keys
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.drawing.ramp import doubt_colour
from rotopaint_ui.drawing.render import colours_of
from rotopaint_ui.inspector.shape_tree import OWN_LAYER, OWN_NAME, ShapeTree, list_of
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.layer_actions import put_into_layer
from rotopaint_ui.widgets.icons import icon
from rotopaint_ui.widgets.tab_widgets import note_label, swatch

NAME, EYE, LOCK, ERROR, KEYS = range(5)
_BY_HAND = QColor("#ffe14d")  # as a person's diamonds on the timeline
_ABOUT = {
    EYE: "Shown in the viewer; exports are not changed",
    LOCK: "Locked in the viewer",
    ERROR: "Expected error on this frame, in pixels of the plate",
    KEYS: "Keys, and how many of them people made",
}
_EMPTY = "No shapes yet. Drag a box around the face and press Run: shapes come in frame by frame."


class ShapesTab(QWidget):
    """A tree of shapes. Eye, lock and the menu act on all selected shapes."""

    def __init__(self, session: ShotSession) -> None:
        super().__init__()
        self.shape_actions: Sequence[QAction] = ()  # commands that the menu offers for the chosen shapes
        self._session, self._context = session, EditContext(session)
        self._shown: object = None
        self._rows: dict[str, QTreeWidgetItem] = {}
        self._row_states: dict[str, tuple[object, ...]] = {}  # what each row shows
        self._empty = note_label(_EMPTY)
        self.tree = self._make_tree()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._empty)
        column.addWidget(self.tree, 1)
        column.addStretch(0)
        self._empty.setContentsMargins(12, 12, 12, 12)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)

    @property
    def chosen_names(self) -> tuple[str, ...]:
        """Names of the shapes that are selected in the tree."""
        return tuple(name for name, row in self._rows.items() if row.isSelected())

    def row_of(self, name: str) -> QTreeWidgetItem:
        """The row of a shape. Raises KeyError."""
        return self._rows[name]

    def refresh(self) -> None:
        """Show the session; rows are rebuilt only when the list of shapes changes."""
        document = self._session.document
        shapes = () if document is None else document.shapes
        self._empty.setVisible(not shapes)
        self.tree.setVisible(bool(shapes))
        own = self._session.colours
        names = tuple(
            (each.name, list_of(each), _chain_of(each), self._session.names.of(each.name), own.get(each.name))
            for each in shapes
        )
        self.tree.blockSignals(True)
        if names != self._shown:
            self._shown = names
            self._fill_tree(shapes)
        for shape in shapes:
            self._show_shape(self._rows[shape.name], shape)
        self._follow_selection()
        self.tree.blockSignals(False)

    # --- rows

    def _make_tree(self) -> ShapeTree:
        tree = ShapeTree(switches=(EYE, LOCK))
        tree.setHeaderLabels(["Shape", "", "", "Error", "Keys"])
        tree.setUniformRowHeights(True)
        tree.setIconSize(QSize(16, 16))
        tree.setObjectName("shape_tree")
        tree.setIndentation(10)
        tree.setAccessibleName("Shapes")
        tree.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header = tree.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(24)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        for column in (EYE, LOCK, ERROR, KEYS):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        for column, text in _ABOUT.items():
            tree.headerItem().setToolTip(column, text)
        tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        tree.itemDoubleClicked.connect(self._begin_rename)
        tree.itemChanged.connect(self._end_rename)
        tree.itemClicked.connect(self._click)
        tree.switched.connect(self._switch)
        tree.itemSelectionChanged.connect(self._select_rows)
        tree.customContextMenuRequested.connect(self._menu)
        tree.fell.connect(lambda names, layer: put_into_layer(self._context, names, layer))
        return tree

    def _fill_tree(self, shapes: Iterable[RotoShape]) -> None:
        self.tree.begin_rows()
        self._rows.clear()
        self._row_states.clear()
        document = self._session.document
        colours = {} if document is None else colours_of(document, self._session.colours)
        for shape in sorted(shapes, key=lambda each: each.layer is None):
            item = QTreeWidgetItem(self.tree.home_of(shape), [self._session.names.of(shape.name)])
            item.setData(NAME, OWN_NAME, shape.name)
            item.setFlags((item.flags() | Qt.ItemFlag.ItemIsEditable) & ~Qt.ItemFlag.ItemIsDropEnabled)
            item.setIcon(NAME, swatch(colours[shape.name], closed=shape.closed))
            kind = "closed" if shape.closed else "open"
            about = f"{shape.name}: {list_of(shape)}, {kind}, {shape.n_points} points"
            item.setToolTip(NAME, f"{about}; a double click or F2 renames it")
            item.setToolTip(EYE, "Shown in the viewer; mattes, paint and exports keep a hidden shape")
            item.setToolTip(LOCK, "Locked: neither the mouse nor Spread, Refit, Teach or a landmark moves the shape")
            for column in (ERROR, KEYS):
                item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self._rows[shape.name] = item
        self.tree.expandAll()

    def _show_shape(self, item: QTreeWidgetItem, shape: RotoShape) -> None:
        session = self._session
        shown, locked = shape.name not in session.hidden, shape.name in session.locked
        key = shape.keys.get(session.frame)
        by_hand = "by hand" if key is not None and key.source == "human" else ""
        if not by_hand and session.frame in session.review.keyed_frames().get(shape.name, ()):
            by_hand = "followed"  # a landmark that a person placed
        error = None if by_hand else session.run.error_at(session.frame, shape.name)
        if self._row_states.get(shape.name) == (shown, locked, by_hand, error, shape.keys):
            return  # icons and texts cost a millisecond a row, and this is called at every frame
        self._row_states[shape.name] = shown, locked, by_hand, error, shape.keys
        item.setIcon(EYE, icon("eye" if shown else "eye_off"))
        item.setIcon(LOCK, icon("lock" if locked else "lock_off"))
        item.setData(EYE, Qt.ItemDataRole.AccessibleTextRole, "shown" if shown else "hidden")
        item.setData(LOCK, Qt.ItemDataRole.AccessibleTextRole, "locked" if locked else "free")
        self._show_error(item, error)
        if by_hand:
            item.setText(ERROR, by_hand)
            item.setForeground(ERROR, QBrush(_BY_HAND))
        n_human = len(manual_keys(shape))
        item.setText(KEYS, f"{len(shape.keys)}  \u25c6{n_human} " if n_human else f"{len(shape.keys)} ")

    def _show_error(self, item: QTreeWidgetItem, error: float | None) -> None:
        lost, plate = error == float("inf"), self._session.plate
        item.setText(ERROR, "" if error is None else "lost" if lost else f"{error:.2f}")
        if error is not None and plate is not None:
            share = self._session.error_scale().share(error)
            item.setForeground(ERROR, QBrush(doubt_colour(share).lighter(125)))

    def _follow_selection(self) -> None:
        """Select the rows of the session's selection."""
        chosen = self._session.selection.shapes
        if chosen != frozenset(self.chosen_names):
            for each, row in self._rows.items():
                row.setSelected(each in chosen)
            first = self._rows.get(self._session.selection.shape or "")
            if first is not None:
                self.tree.scrollToItem(first)
        if (layer := self._context.layer) is not None:
            self.tree.layer_row(layer.name).setSelected(True)

    # --- the mouse

    def _click(self, item: QTreeWidgetItem, column: int) -> None:
        """Select the group again when its row is clicked while one of its shapes is selected."""
        layer = item.data(NAME, OWN_LAYER)
        if layer is not None and self._session.document is not None:
            self._session.select_layer(layer)

    def _switch(self, item: QTreeWidgetItem, column: int) -> None:
        """Show or hide, lock or free a shape, all that are selected with it, or those of a group."""
        name, layer, document = item.data(NAME, OWN_NAME), item.data(NAME, OWN_LAYER), self._session.document
        if layer is not None and document is not None:
            names = tuple(shape.name for shape in members(document, layer))
            name = names[0]
        elif name not in self._rows:
            return
        else:
            names = self.chosen_names if name in self.chosen_names else (name,)
        if column == EYE:
            self._do_each(names, self._session.show, name in self._session.hidden)
        else:
            self._do_each(names, self._session.lock, name not in self._session.locked)

    def _select_rows(self) -> None:
        chosen = self.chosen_names
        current = self.tree.currentItem()
        if current is not None and current.isSelected() and (layer := current.data(NAME, OWN_LAYER)) is not None:
            self._session.select_layer(layer)
            return
        name = None if current is None else current.data(NAME, OWN_NAME)
        last = name if name in chosen else None
        self._session.select(last or (chosen[0] if chosen else None), also=chosen)

    def begin_rename(self) -> None:
        """Edit the name of the selected shape or group."""
        layer = self._context.layer
        row = self.tree.layer_row(layer.name) if layer else self._rows.get(self._session.selection.shape or "")
        if row is not None:
            self._begin_rename(row, NAME)

    def _begin_rename(self, item: QTreeWidgetItem, column: int) -> None:
        has_name = item.data(NAME, OWN_NAME) in self._rows or item.data(NAME, OWN_LAYER) is not None
        if column == NAME and has_name and not self._session.runs.is_live:
            self.tree.editItem(item, NAME)

    def _end_rename(self, item: QTreeWidgetItem, column: int) -> None:
        """Rename after Qt has closed the editor, because the rows may be rebuilt."""
        name, layer = item.data(NAME, OWN_NAME), item.data(NAME, OWN_LAYER)
        if column == NAME and layer is not None and item.text(NAME) != layer:
            new_name = item.text(NAME)
            QTimer.singleShot(0, self, lambda: self._rename_layer(layer, new_name))
        elif column == NAME and name in self._rows and item.text(NAME) != self._session.names.of(name):
            given = item.text(NAME)
            QTimer.singleShot(0, self, lambda: self._rename(name, given))

    def _rename(self, name: str, given: str) -> None:
        if not self._session.names.rename(name, given) and name in self._rows:
            self.tree.blockSignals(True)
            self._rows[name].setText(NAME, self._session.names.of(name))
            self.tree.blockSignals(False)

    def _rename_layer(self, layer: str, given: str) -> None:
        if self._renamed_face(layer, given) or self._context.put(
            "rename group", lambda document: rename_layer(document, layer, given.strip())
        ):
            self._session.select_layer(given.strip())
        else:
            self._shown = None
            self.refresh()

    def _renamed_face(self, layer: str, given: str) -> bool:
        """Rename the face whose group this is."""
        session = self._session
        if layer not in face_names(session.state) or not self._context.is_open:
            return False
        try:
            session.edits.push("rename face", rename_face(session.state, layer, given))
        except RotopaintError as error:
            session.say(str(error))
            self._shown = None
            self.refresh()
        return True

    def _do_each(self, names: Iterable[str], do: object, on: bool) -> None:
        assert callable(do)
        for name in names:
            do(name, on)

    def _menu(self, place: QPoint) -> None:
        names = self.chosen_names
        if not names:
            return
        menu = self.menu_of(names)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.tree.viewport().mapToGlobal(place))

    def colour(self, names: tuple[str, ...], colour: str | None) -> None:
        """Set the colour (#rrggbb) of shapes in viewer and list; None: the default one."""
        rest = {name: each for name, each in self._session.colours.items() if name not in names}
        self._session.colours = rest if colour is None else {**rest, **dict.fromkeys(names, colour)}
        self._session.notify()

    def _ask_colour(self, names: tuple[str, ...]) -> None:
        dialog = QColorDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setModal(False)
        dialog.colorSelected.connect(lambda colour: self.colour(names, colour.name()))
        dialog.show()

    def menu_of(self, names: tuple[str, ...]) -> QMenu:
        """The menu for the selected shapes."""
        session, menu = self._session, QMenu(self)
        others = tuple(name for name in self._rows if name not in names)
        rows = (
            ("Show", names, session.show, True),
            ("Hide", names, session.show, False),
            ("Hide the others", others, session.show, False),
            ("Show all", tuple(self._rows), session.show, True),
            ("Lock", names, session.lock, True),
            ("Unlock", names, session.lock, False),
            ("Lock the others", others, session.lock, True),
        )
        if len(names) == 1:
            menu.addAction("Rename").triggered.connect(lambda: self._begin_rename(self._rows[names[0]], NAME))
        menu.addAction("Colour\u2026").triggered.connect(partial(self._ask_colour, names))
        if any(name in session.colours for name in names):
            menu.addAction("Usual colour").triggered.connect(partial(self.colour, names, None))
        menu.addActions(list(self.shape_actions))
        menu.addSeparator()
        for label, which, do, on in rows:
            menu.addAction(label).triggered.connect(partial(self._do_each, which, do, on))
        return menu


def _chain_of(shape: RotoShape) -> tuple[str, ...]:
    return tuple(layer.name for layer in shape.layer.chain) if shape.layer is not None else ()
