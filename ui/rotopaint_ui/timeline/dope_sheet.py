"""The dope sheet: keys of the selected shapes, a row each, or of all shapes in one row; selected, moved, stretched,
copied.

A selected group has a row for its transform. Each gesture is one undo step. Keys that are moved or pasted become human
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QPainter
from PySide6.QtWidgets import QMenu, QWidget

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes import edit_keys
from rotopaint_ai.shapes.edit_keys import CopiedKeys, KeyPlace, Ways
from rotopaint_ai.shapes.roto import Interpolation, RotoDocument, RotoShape
from rotopaint_ui.session.history import IN_MEMORY
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.timeline.axis import Axis
from rotopaint_ui.timeline.key_rows import KeyRow, key_rows, paint_chosen, paint_hidden, paint_ways_on
from rotopaint_ui.timeline.key_strip import KEYS, paint_keys
from rotopaint_ui.tools.base import CLICK_PX, band_between, distance, paint_band
from rotopaint_ui.tools.edit_context import EditContext

_GRIP_PX = 9.0  # distance within which the mouse hits a key; outside it a rubber band starts
_WAYS_ON: Mapping[Interpolation, str] = {
    "linear": "Go on linearly",
    "hold": "Hold",
    "ease": "Ease out and in",
    "smooth": "Run smoothly",
}
Places = frozenset[KeyPlace]
_Chosen = tuple[RotoDocument | None, Places]  # shapes, and the keys that were chosen in them
_NONE: Places = frozenset()


@dataclass(frozen=True, slots=True)
class SheetArea:
    """The area of the dope sheet in its widget, its first visible row, and the number of visible rows."""

    axis: Axis
    y: float
    n_rows: int
    first_row: int = 0

    def row_at(self, y: float) -> int:
        """The row at a height; above and below all rows, the nearest one."""
        return self.first_row + min(max(int((y - self.y) // KEYS), 0), max(self.n_rows - 1, 0))

    def top_of(self, row: int) -> float:
        """The top of a row."""
        return self.y + (row - self.first_row) * KEYS


@dataclass(frozen=True, slots=True)
class _Drag:
    """A drag of keys, from the press on."""

    kind: Literal["move", "stretch", "band"]
    start: QPointF
    frame: int
    chosen: Places  # when it began
    has_begun: bool = False


class DopeSheet:
    """The keys of a session. Its widget passes on the mouse, keys and a painter, with the sheet's area."""

    def __init__(self, session: ShotSession) -> None:
        self._session, self._context = session, EditContext(session)
        self._chosen: Places = _NONE
        self._copied: CopiedKeys = {}
        self._drag: _Drag | None = None
        self._end = QPointF()
        self._known: tuple[RotoDocument | None, frozenset[str], tuple[KeyRow, ...]] = (None, frozenset(), ())
        self._steps: list[tuple[_Chosen, _Chosen]] = []  # before and after edits made here
        session.edits.moved.append(self._choose_again)

    # --- what there is

    @property
    def rows(self) -> tuple[KeyRow, ...]:
        """A row for each selected shape, above them one for a selected group's transform; without a selection, one for
        all shapes."""
        document, names = self._session.document, self._session.selection.shapes
        if self._known[0] is not document or self._known[1] != names:
            shapes = () if document is None else document.shapes
            chosen = tuple(shape for shape in shapes if shape.name in names)
            self._known = document, names, key_rows(chosen or shapes, is_apart=bool(chosen))
        layer = self._context.layer
        own = () if layer is None else (KeyRow((), dict.fromkeys(layer.poses, "human"), layer.name),)
        return (*own, *self._known[2])

    @property
    def chosen_keys(self) -> Places:
        """The selected keys that still exist."""
        if self._chosen:
            there = {name: frames for row in self.rows for name, frames in row.frames_of.items()}
            self._chosen = frozenset(place for place in self._chosen if place[1] in there.get(place[0], ()))
        return self._chosen

    @property
    def is_busy(self) -> bool:
        """Whether keys are being dragged, or a rubber band is drawn."""
        return self._drag is not None

    def key_at(self, area: SheetArea, point: QPointF) -> Places:
        """The keys under the mouse."""
        if not self.rows:
            return _NONE
        row, frame = self.rows[area.row_at(point.y())], area.axis.frame_at(point.x())
        is_near = abs(area.axis.middle_of(frame) - point.x()) < _GRIP_PX
        return row.places_at(frame) if is_near else _NONE

    # --- the mouse

    def press(self, area: SheetArea, point: QPointF, *, adds: bool, stretches: bool) -> None:
        """Select the key under the mouse, or begin a rubber band.

        `adds`: add the key to the selection, or remove it; a drag is then a rubber band even if it begins on a key.
        """
        under, chosen = self._changeable_or_say(self.key_at(area, point)), self._changeable(self.chosen_keys)
        if not under:
            self._drag = _Drag("band", point, area.axis.frame_at(point.x()), chosen if adds else _NONE)
            self._chosen = self._drag.chosen
        elif adds:
            self._drag = _Drag("band", point, area.axis.frame_at(point.x()), chosen | under)
            self._chosen = chosen - under if under <= chosen else chosen | under
        else:
            self._chosen = chosen if under <= chosen else under
            kind: Literal["move", "stretch"] = "stretch" if stretches else "move"
            self._drag = _Drag(kind, point, area.axis.frame_at(point.x()), self._chosen)
        self._end = point

    def drag(self, area: SheetArea, point: QPointF) -> None:
        """Move or stretch the selected keys, or select those inside the rubber band."""
        drag, self._end = self._drag, point
        if drag is None:
            return
        if not drag.has_begun:
            if distance(point, drag.start) < CLICK_PX:
                return
            if drag.kind != "band" and not self._begin_key_drag(drag):
                self._drag = None
                return
            drag = self._drag = replace(drag, has_begun=True)
        if drag.kind == "band":
            self._chosen = drag.chosen | self._changeable(self._keys_in_band(area, drag.start, point))
        else:
            self._show_retimed(self._ways_of(drag, area.axis.frame_at(point.x())))

    def release(self) -> None:
        """End the gesture, as one undo step."""
        drag, self._drag = self._drag, None
        if drag is None or not drag.has_begun:
            return
        if drag.kind != "band":
            before = self._session.edits.before_gesture.document, drag.chosen
            self._session.edits.commit()
            self._remember(before, self._chosen)
        elif self._chosen:
            what = "1 key" if len(self._chosen) == 1 else f"{len(self._chosen)} keys"
            self._session.say(f"{what}: drag moves, Ctrl+drag stretches, the right button offers more")

    def cancel(self) -> None:
        """Cancel the drag; without one, clear the selection."""
        drag, self._drag = self._drag, None
        if drag is None:
            self._chosen = _NONE
        else:
            self._chosen = drag.chosen
            if drag.has_begun and drag.kind != "band":
                self._session.edits.abort()

    def _begin_key_drag(self, drag: _Drag) -> bool:
        frames = {frame for _, frame in drag.chosen}
        if drag.kind == "stretch" and (len(frames) < 2 or drag.frame not in (min(frames), max(frames))):
            self._session.say("Ctrl+drag the first or the last of several keys to stretch them in time")
            return False
        if not self._context.is_free:
            return False
        self._session.edits.begin("stretch keys" if drag.kind == "stretch" else "move keys")
        return True

    def _ways_of(self, drag: _Drag, to: int) -> Ways:
        plate, frames = self._session.plate, {frame for _, frame in drag.chosen}
        assert plate is not None
        if drag.kind == "move":
            return edit_keys.shift_keys(drag.chosen, to - drag.frame, first=plate.first, last=plate.last)
        held = min(frames) if drag.frame == max(frames) else max(frames)
        return edit_keys.stretch_keys(drag.chosen, held, drag.frame, to)

    def _show_retimed(self, ways: Ways) -> None:
        shown, self._chosen = self._chosen, frozenset((name, to) for (name, _), to in ways.items())
        try:
            self._context.preview_document(partial(edit_keys.retime, ways=ways))
        except DocumentError:
            self._chosen = shown  # no room: keep the last view

    def _keys_in_band(self, area: SheetArea, start: QPointF, end: QPointF) -> Places:
        rows = sorted((area.row_at(start.y()), area.row_at(end.y())))
        left, right = sorted((start.x(), end.x()))
        frames = [f for f in area.axis.frames if left <= area.axis.middle_of(f) <= right]
        if not frames or not self.rows:
            return _NONE
        return _NONE.union(*(row.places_in(frames[0], frames[-1]) for row in self.rows[rows[0] : rows[1] + 1]))

    def _changeable(self, places: Places) -> Places:
        """Those whose shape is neither hidden nor locked."""
        held = {shape.name for shape in self._held_shapes()}
        return frozenset(place for place in places if place[0] not in held)

    def _changeable_or_say(self, places: Places) -> Places:
        """Those whose shape is neither hidden nor locked; if that leaves none, shows the reason."""
        left = self._changeable(places)
        if places and not left:
            names = {name for name, _ in places}
            held = next(shape for shape in self._held_shapes() if shape.name in names)
            self._session.say(self._context.why_held(held.name))
        return left

    def _held_shapes(self) -> list[RotoShape]:
        """The shapes that are hidden or locked, in the document's order."""
        document = self._session.document
        shapes = () if document is None else document.shapes
        return [shape for shape in shapes if not self._context.can_grab(shape)]

    # --- edits

    def choose_all(self) -> None:
        """Select all keys of the rows."""
        places = (row.places_at(frame) for row in self.rows for frame in row.sources)
        self._chosen = self._changeable(_NONE.union(*places))

    def choose_later(self) -> None:
        """Select also all later keys of the selected keys' shapes, to move them together."""
        firsts = {name: frames[0] for name, frames in edit_keys.frames_by_shape(self.chosen_keys).items()}
        rows = [(name, frames) for row in self.rows for name, frames in row.frames_of.items() if name in firsts]
        self._chosen = frozenset((name, f) for name, frames in rows for f in frames if f >= firsts[name])

    def delete_chosen_keys(self) -> None:
        """Delete the selected keys."""
        places = self._changeable_or_say(self.chosen_keys)
        if places:
            self._put_step(f"delete {_word(places)}", partial(edit_keys.remove_keys, places=places), _NONE)

    def copy_chosen(self) -> None:
        """Copy the selected keys."""
        document = self._session.document
        if document is not None and self.chosen_keys:
            self._copied = edit_keys.copy_keys(document, self.chosen_keys)
            n = len(self.chosen_keys)
            self._session.say(f"Copied {n} {_word(self.chosen_keys)}: Ctrl+V puts the first one on the frame shown")

    def forget_copied(self) -> None:
        """Forget copied keys, because another shot is open or something else was copied."""
        self._copied = {}

    def forget(self) -> None:
        """Forget keys that are copied or were chosen, because another shot is open."""
        self.forget_copied()
        self._chosen, self._steps = _NONE, []

    def paste_copied(self) -> None:
        """Paste the copied keys from the current frame on, onto their own shapes; keys of one shape onto the selected
        shape."""
        session, frame, plate = self._session, self._session.frame, self._session.plate
        copied = self._copied
        layer, own = self._context.layer, session.selection.shape
        if len(copied) == 1 and own is not None:
            (name, keys), group = next(iter(copied.items())), layer and edit_keys.group_place(layer.name)
            copied = {(own if edit_keys.group_of(name) is None else group or name): keys}
        if plate is None or not copied:
            session.say("No key was copied yet: choose some in the strip of keys, then Ctrl+C")
            return
        places = frozenset((name, frame + at) for name, keys in copied.items() for at in keys)
        pasted = self._changeable_or_say(places)
        if pasted:
            left = {name: copied[name] for name in edit_keys.frames_by_shape(pasted)}
            make = partial(edit_keys.paste_keys, copied=left, frame=frame, last=plate.last)
            self._put_step("paste keys", make, pasted)

    def set_way_on(self, kind: Interpolation) -> None:
        """Set the interpolation after the selected keys."""
        places = self._changeable_or_say(self.chosen_keys)
        if places:
            self._put_step(f"{kind} {_word(places)}", partial(edit_keys.set_ways_on, places=places, kind=kind), places)

    def shift_chosen(self, by: int) -> None:
        """Move the selected keys by some frames."""
        plate, places = self._session.plate, self._changeable_or_say(self.chosen_keys)
        if plate is None or not places:
            return
        ways = edit_keys.shift_keys(places, by, first=plate.first, last=plate.last)
        moved = frozenset((name, to) for (name, _), to in ways.items())
        self._put_step(f"move {_word(places)}", partial(edit_keys.retime, ways=ways), moved)

    def _put_step(self, label: str, make: Callable[[RotoDocument], RotoDocument], chosen: Places) -> None:
        """Make an undo step, after which other keys are chosen."""
        before = self._session.document, self._chosen
        if self._context.is_free and self._context.put(label, make):
            self._chosen = chosen
            self._remember(before, chosen)

    def _remember(self, before: _Chosen, chosen: Places) -> None:
        if before[0] is not self._session.document:
            self._steps = [*self._steps[1 - IN_MEMORY :], (before, (self._session.document, chosen))]

    def _choose_again(self, before: State, after: State) -> None:
        """After undo or redo of an edit made here, choose the keys that were chosen then."""
        for step in reversed(self._steps):
            for (left, _), (shown, chosen) in (step, step[::-1]):
                if left is before.document and shown is after.document:
                    self._chosen = chosen
                    return

    # --- keys and menu

    def key_action(self, event: QKeyEvent) -> Callable[[], None] | None:
        """The action of a keyboard key on the selected keys; None where the key belongs to the panel."""
        standard = QKeySequence.StandardKey
        if event.matches(standard.Paste):
            return self.paste_copied if self._copied else None
        if self.is_busy or (self.chosen_keys and event.key() == Qt.Key.Key_Escape):
            return self.cancel if event.key() == Qt.Key.Key_Escape else None
        if not self.chosen_keys:
            return None
        for key, do in ((standard.Copy, self.copy_chosen), (standard.SelectAll, self.choose_all)):
            if event.matches(key):
                return do
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event.modifiers() & Qt.KeyboardModifier.AltModifier and event.key() in steps:
            return partial(self.shift_chosen, steps[Qt.Key(event.key())])
        return self.delete_chosen_keys if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) else None

    def make_key_menu(self, parent: QWidget, area: SheetArea, point: QPointF) -> QMenu:
        """A menu for the key under the mouse and those selected with it."""
        under = self._changeable(self.key_at(area, point))
        if under and not under <= self.chosen_keys:
            self._chosen = under
        menu, has_keys, frame = QMenu(parent), bool(self.chosen_keys), self._session.frame
        document = self._session.document
        shapes = {place for place in self.chosen_keys if edit_keys.group_of(place[0]) is None}
        kinds = {document.shape(name).keys[f].interpolation for name, f in shapes} if document is not None else set()
        for kind, text in _WAYS_ON.items():
            row = menu.addAction(text, partial(self.set_way_on, kind))
            row.setCheckable(True)
            row.setChecked(kinds == {kind})
            row.setEnabled(bool(shapes))
        menu.addSeparator()
        for text, keys, do, is_on in (
            ("Copy", "Ctrl+C", self.copy_chosen, has_keys),
            (f"Paste at {frame}", "Ctrl+V", self.paste_copied, bool(self._copied)),
            ("Delete", "Del", self.delete_chosen_keys, has_keys),
            ("One frame earlier", "Alt+Left", partial(self.shift_chosen, -1), has_keys),
            ("One frame later", "Alt+Right", partial(self.shift_chosen, 1), has_keys),
            ("Choose these and all later keys", "", self.choose_later, has_keys),
            ("Choose all keys of these shapes", "Ctrl+A", self.choose_all, bool(self.rows)),
        ):
            shown = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
            menu.addAction(f"{text}\t{shown}".strip(), do).setEnabled(is_on)
        return menu

    # --- painting

    def _follows_landmarks(self, row: KeyRow) -> bool:
        """Whether a row has a shape that a model makes, which follows landmarks; drawn shapes do not."""
        models = self._session.state.predicted
        own = frozenset() if models is None else {shape.name for shape in models.shapes}
        return any(shape.name in own for shape in row.shapes)

    def _frames_by_hand(self, row: KeyRow, hand: Collection[int]) -> Collection[int]:
        """The frames of a row that landmarks placed by hand make a person's.

        For a selected shape these are the frames where a landmark on it moved it. For all shapes in one row they are
        all frames of such landmarks.
        """
        if len(row.shapes) == 1 and (name := row.shapes[0].name) in self._session.selection.shapes:
            return self._session.review.keyed_frames().get(name, ())
        return hand if self._follows_landmarks(row) else ()

    def paint(self, painter: QPainter, area: SheetArea, hand: Collection[int], crops: Collection[int]) -> None:
        """Draw the visible rows; `hand`: frames with a landmark placed by hand, `crops`: with a drawn crop box."""
        chosen = self.chosen_keys
        seen = self.rows[area.first_row : area.first_row + area.n_rows]
        if not seen:
            paint_keys(painter, area.axis, area.top_of(area.first_row), {}, crops)  # drawn before the first run
        for number, row in enumerate(seen, area.first_row):
            y = area.top_of(number)
            if len(row.shapes) == 1:
                paint_hidden(painter, area.axis, y, KEYS, row.shapes[0])
                paint_ways_on(painter, area.axis, y, KEYS, row.shapes[0])
            frames = {frame for name, frame in chosen if name in row.frames_of}
            if frames:
                paint_chosen(painter, area.axis, y, KEYS, frames)
            sources = {**row.sources, **dict.fromkeys(self._frames_by_hand(row, hand), "human")}
            paint_keys(painter, area.axis, y, sources, crops if number == area.first_row else ())
        if self._drag is not None and self._drag.kind == "band" and self._drag.has_begun:
            paint_band(painter, band_between(self._drag.start, self._end))


def _word(places: Collection[KeyPlace]) -> str:
    return "key" if len(places) == 1 else "keys"
