"""The timeline: strips on one axis - frames, thumbnails with holds, errors by shape, keys with reach, review marks.

Press or drag goes to a frame, the wheel magnifies about the mouse, the middle button moves the axis, a double click on
the frame numbers shows the whole shot. The ends of the reach bracket can be dragged; a row of errors selects its shape.
In the strip of keys the mouse takes hold of keys, see `dope_sheet`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.edit_keys import KeyPlace, group_of
from rotopaint_ui.drawing.labels import paint_label
from rotopaint_ui.drawing.render import resize_font
from rotopaint_ui.engine.frame_cache import PLATE, FrameCache
from rotopaint_ui.session.key_diff import KeyDiff
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.session.spread_reach import End, SpreadReach
from rotopaint_ui.session.xsheet import pieces_at
from rotopaint_ui.timeline import header_strips
from rotopaint_ui.timeline.axis import Axis
from rotopaint_ui.timeline.dope_sheet import DopeSheet, SheetArea
from rotopaint_ui.timeline.error_strip import BARS, ROW, ErrorRows, HeatRows, Settled, paint_bars
from rotopaint_ui.timeline.header_strips import GAP, GROUND, RULER, THUMBS
from rotopaint_ui.timeline.key_strip import KEYS, paint_moved
from rotopaint_ui.timeline.mark_strip import MARKS, paint_marks
from rotopaint_ui.timeline.piece_strip import PIECE, paint_pieces
from rotopaint_ui.timeline.reach_strip import REACH, end_at, paint_reach

MOST_ROWS = 24
USUAL_ROWS = 10  # that there is room for before shapes are known
ROW_LABEL_PX = 18
KEY_LABEL_PX = 44  # width for both ends of a shape's name before its row
SMALL = 0.85  # letters, against those of the panel
_FAINT = 0.35  # brackets of other frames


class Timeline(QWidget):
    """Shows the session's frames and lets the artist scrub; reports to the panel by signals."""

    frame_wanted = Signal(int)
    shape_wanted = Signal(str)
    reach_changed = Signal(object, bool)  # the bracket, and whether the mouse has let go of it

    def __init__(self, session: ShotSession, frame_cache: FrameCache, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.reach: SpreadReach | None = None
        self.moved: KeyDiff | None = None  # by the last spread or refit
        self._session, self._frames = session, frame_cache
        self._rows = HeatRows()
        self._axis: Axis | None = None
        self._done: tuple[object, object, Settled, int, object] | None = None
        self._left: tuple[Settled, RunRecord, object, range, dict[int, float]] | None = None
        self.sheet = DopeSheet(session)
        self._first_row = 0  # height of the dope sheet
        self._held_end: End | None = None
        self._pan: float | None = None
        self._n_rows = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setMouseTracking(True)
        self.setAccessibleName("Timeline")
        self.setAccessibleDescription("Frames, expected errors, keys and review marks of the shot")

    def sizeHint(self) -> QSize:
        """The height with the usual number of shapes, so that nothing moves when shapes arrive."""
        return QSize(600, int(self._fixed_height() + USUAL_ROWS * ROW + GAP))

    def minimumSizeHint(self) -> QSize:
        """The height of all strips without the rows of shapes."""
        return QSize(200, int(self._fixed_height()))

    def refresh(self) -> None:
        """Show the session."""
        n_rows = len(self._shown_names())
        if n_rows != self._n_rows:
            self._n_rows = n_rows
        self._follow_frame()
        self.update()

    # --- the axis

    @property
    def axis(self) -> Axis | None:
        """The shown frames and their places; None without a plate."""
        plate = self._session.plate
        if plate is None:
            self._axis = None
            return None
        old = self._axis
        if old is None or (old.first, old.last) != (plate.first, plate.last):
            self._axis = Axis.whole(plate.first, plate.last, self.width())
        elif old.width != self.width():
            self._axis = Axis(old.first, old.last, self.width(), old.begin, old.end)
        return self._axis

    def x_of(self, frame: float) -> float:
        """The left edge of a frame's cell."""
        axis = self.axis
        return 0.0 if axis is None else axis.x_of(frame)

    def frame_at(self, x: float) -> int:
        """The frame at an x position; outside the axis, the nearest one."""
        axis = self.axis
        return 0 if axis is None else axis.frame_at(x)

    def thumb_frames(self) -> list[int]:
        """The frames whose thumbnails fill the strip, those near the playhead first."""
        plate, axis = self._session.plate, self.axis
        return [] if plate is None or axis is None else header_strips.thumb_places(plate, axis, self._session.frame)

    def place_of(self, name: str) -> float:
        """The middle of a strip: ruler, thumbs, bars, rows, keys, reach or marks."""
        tops = self._tops()
        following = list(tops)[list(tops).index(name) + 1]
        return (tops[name] + tops[following] - GAP) / 2

    def _tops(self) -> dict[str, float]:
        """The top of each strip."""
        rows = self._shown_rows() * ROW
        keys = KEYS * self._shown_key_rows()
        heights = {"ruler": RULER, "thumbs": THUMBS, "pieces": PIECE * len(self._session.xsheet), "bars": BARS}
        heights |= {"rows": rows, "keys": keys, "reach": REACH}
        tops, y = {}, float(GAP)
        for name, height in {**heights, "marks": MARKS}.items():
            tops[name] = y
            y += height + GAP if height else 0
        return {**tops, "end": y + GAP}

    def _fixed_height(self) -> float:
        """The height of all strips but the rows of shapes, with gaps."""
        strips_px = (RULER, THUMBS, BARS, KEYS, REACH, MARKS)
        n_parts = len(self._session.xsheet)
        pieces = PIECE * n_parts + GAP if n_parts else 0
        return sum(strips_px) + (len(strips_px) + 2) * GAP + pieces

    def _shown_rows(self) -> int:
        """The number of rows of shapes for which there is room."""
        room = int((self._room() - KEYS * (self._shown_key_rows() - 1)) // ROW)
        return max(min(self._n_rows, MOST_ROWS, room), 0)

    def _shown_key_rows(self) -> int:
        """The number of rows of the dope sheet for which there is room; at least one."""
        return max(min(len(self.sheet.rows), 1 + int(self._room() // KEYS)), 1)

    def _room(self) -> float:
        """The height left for rows of errors, and for more than one row of keys."""
        return max(self.height() - self._fixed_height() - GAP, 0.0)

    def _sheet_area(self, axis: Axis) -> SheetArea:
        n_rows = self._shown_key_rows()
        self._first_row = min(self._first_row, max(len(self.sheet.rows) - n_rows, 0))
        return SheetArea(axis, self._tops()["keys"], n_rows, self._first_row)

    def _shown_names(self) -> tuple[str, ...]:
        """Shapes with a row of errors: the current face's, because errors of other faces are unknown."""
        document, aside = self._session.document, self._session.state.aside
        return () if document is None else tuple(s.name for s in document.shapes if s.name not in aside)

    def _follow_frame(self) -> None:
        """Shift a magnified axis so that it shows the current frame."""
        axis = self.axis
        if axis is not None and not axis.is_whole:
            self._show_axis(axis.showing(self._session.frame))

    def _show_axis(self, axis: Axis) -> None:
        if axis != self._axis:
            self._axis = axis
            self._frames.want_thumbs(self.thumb_frames())
            self.update()

    # --- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw all strips, then the playhead."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor("#16181c"))
        painter.setFont(resize_font(self.font(), SMALL))
        plate, axis = self._session.plate, self.axis
        if plate is None or axis is None:
            self._paint_nothing(painter)
            return
        painter.save()
        painter.setClipRect(header_strips.strip_area(axis, 0, self.height()).adjusted(-2, 0, 2, 0))
        self._paint_strips(painter, plate, axis)
        painter.restore()
        self._paint_labels(painter)
        if axis.begin <= self._session.frame < axis.end:
            header_strips.paint_playhead(painter, axis, self._session.frame, self.height())

    def _paint_nothing(self, painter: QPainter) -> None:
        painter.setPen(QColor("#7d8492"))
        text = "Frames, expected errors, keys and review marks of the shot appear here"
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, text)

    def _paint_strips(self, painter: QPainter, plate: PlateFacts, axis: Axis) -> None:
        tops, session = self._tops(), self._session
        area = self._sheet_area(axis)
        heights = ("thumbs", THUMBS), ("bars", BARS), ("keys", KEYS * area.n_rows), ("reach", REACH), ("marks", MARKS)
        for name, height in heights:
            painter.fillRect(header_strips.strip_area(axis, tops[name], height), GROUND)
        header_strips.paint_ruler(painter, axis, tops["ruler"])
        if session.span is not None:
            header_strips.paint_span(painter, axis, tops["ruler"], session.span)
        thumbs = {frame: self._frames.thumb(frame) for frame in self.thumb_frames()}
        broken = {frame for name, frame in self._frames.broken if name == PLATE}
        header_strips.paint_thumbs(painter, axis, tops["thumbs"], plate, thumbs, broken)
        paint_pieces(painter, axis, tops["pieces"], session.xsheet)
        header_strips.paint_holds(painter, axis, tops["thumbs"] + 1, session.run.held)
        settled, scale = self._settled_by_shape(), session.error_scale()
        done = settled.get(session.selection.shape or "", frozenset())
        paint_bars(painter, axis, tops["bars"], self._frame_errors(axis), scale, done)
        names = self._shown_names()[: self._shown_rows()]
        if names:
            rows = ErrorRows(session.run, names, axis, scale, settled)
            painter.drawImage(header_strips.strip_area(axis, tops["rows"], 0).topLeft(), self._rows.image(rows))
            self._paint_chosen_row(painter, axis, tops["rows"], names)
        document = session.document
        hand = () if document is None else document.landmarks.hand
        self.sheet.paint(painter, area, hand, session.state.crops)
        if self.moved is not None:
            paint_moved(painter, axis, tops["keys"], self.moved.by_frame)
        self._paint_other_spreads(painter, axis, tops["reach"])
        if self.reach is not None:
            paint_reach(painter, axis, tops["reach"], self.reach, is_held=self._held_end is not None)
        paint_marks(painter, axis, tops["marks"], session.state.marks, session.state.notes)

    def _paint_other_spreads(self, painter: QPainter, axis: Axis, y: float) -> None:
        """Draw the brackets of other frames' spreads, faintly."""
        painter.setOpacity(_FAINT)
        for each in self._session.state.spreads:
            if self.reach is None or each.frame != self.reach.frame:
                paint_reach(
                    painter, axis, y, SpreadReach(each.frame, each.first, each.last, is_spread=True), is_held=False
                )
        painter.setOpacity(1.0)

    def _settled_by_shape(self) -> Settled:
        """Frames that need no more review, by shape; under "" those that N skips."""
        state, run, reviewed = self._session.state, self._session.run, self._session.reviewed_shapes()
        done = self._done
        if done is None or (
            not self._session.edits.is_dragging
            and (done[0] is not state.document or done[1] != state.marks or done[3:] != (id(run), reviewed))
        ):
            accepted = self._session.review.accepted_frames()
            by_shape = {name: accepted | frames for name, frames in self._session.review.keyed_frames().items()}
            by_shape[""] = accepted | self._session.review.settled_frames(reviewed)
            same = done is not None and done[2] == by_shape  # the rows are redrawn for another shape
            kept = done[2] if done is not None and same else by_shape
            done = self._done = state.document, state.marks, kept, id(run), reviewed
        return done[2]

    def _paint_chosen_row(self, painter: QPainter, axis: Axis, y: float, names: tuple[str, ...]) -> None:
        chosen = self._session.selection.shape
        if chosen in names:
            area = header_strips.strip_area(axis, y + ROW * names.index(chosen), ROW - 1)
            painter.setPen(QColor("#ffffff"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(0, -1, -1, 0))
            named = self._session.names.of(chosen)
            paint_label(painter, QPointF(area.left() + 4, area.center().y() - ROW_LABEL_PX / 2), named)

    def _paint_labels(self, painter: QPainter) -> None:
        tops = self._tops()
        rows = ("thumbs", "plate", THUMBS), ("bars", "error", BARS)
        for name, text, height in (*rows, ("reach", "spread", REACH), ("marks", "review", MARKS)):
            header_strips.paint_strip_label(painter, text, tops[name], height)
        for row, part in enumerate(self._session.xsheet):
            header_strips.paint_strip_label(painter, part, tops["pieces"] + PIECE * row, PIECE)
        for row, text in enumerate(self._key_labels()):
            header_strips.paint_strip_label(painter, text, tops["keys"] + KEYS * row, KEYS)
        if self._shown_rows() >= 3:
            header_strips.paint_strip_label(painter, "shapes", tops["rows"], self._shown_rows() * ROW)

    def _frame_errors(self, axis: Axis) -> Mapping[int, float]:
        """By frame, the largest error of the reviewed shapes without a human key; of all of them where each has one."""
        name, run, settled = self._session.reviewed_shapes(), self._session.run, self._settled_by_shape()
        old = self._left
        if old is None or old[0] is not settled or old[1] is not run or old[2:4] != (name, axis.frames):
            found = {frame: run.error_left(frame, {}, name) for frame in axis.frames}
            keyed = {shape: frames for shape, frames in settled.items() if shape}
            left = {frame: run.error_left(frame, keyed, name) for frame in axis.frames}
            found |= {frame: error for frame, error in left.items() if error is not None}
            errors = {frame: error for frame, error in found.items() if error is not None}
            old = self._left = settled, run, name, axis.frames, errors
        return old[4]

    def _key_labels(self) -> list[str]:
        """Labels of the visible key rows: the shape's name where there are several rows."""
        rows, metrics = self.sheet.rows, QFontMetrics(resize_font(self.font(), SMALL))
        if len(rows) < 2:
            return ["keys"]
        layer = self._session.selection.layer or ""
        names = [self._session.names.of(row.shapes[0].name) if row.shapes else layer for row in rows[self._first_row :]]
        shown = names[: self._shown_key_rows()]
        return [metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, KEY_LABEL_PX) for name in shown]

    # --- the mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the end of the bracket, select a row's shape, or go to the frame under the mouse."""
        axis = self.axis
        if axis is None:
            return
        x, strip = event.position().x(), self._strip_at(event.position())
        if event.button() == Qt.MouseButton.MiddleButton:
            self._pan = x
        elif event.button() == Qt.MouseButton.LeftButton and strip == "keys":
            self._press_keys(axis, event)
        elif event.button() == Qt.MouseButton.LeftButton:
            self._held_end = self._end_at(event.position())
            if self._held_end is None:
                self.frame_wanted.emit(axis.frame_at(x))
                if strip == "rows":
                    self.shape_wanted.emit(self._row_name(event.position().y()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag the bracket, move the axis, scrub, or show what is under the mouse."""
        axis, x = self.axis, event.position().x()
        if axis is None:
            return
        if self.sheet.is_busy:
            self.sheet.drag(self._sheet_area(axis), event.position())
            self.update()
        elif self._pan is not None:
            self._show_axis(axis.moved(x - self._pan))
            self._pan = x
        elif self._held_end is not None and self.reach is not None:
            self.reach_changed.emit(self.reach.with_end(self._held_end, axis.frame_at(x)), False)
        elif event.buttons() & Qt.MouseButton.LeftButton:
            self.frame_wanted.emit(axis.frame_at(x))
        else:
            self.setCursor(self._cursor_at(axis, event.position()))
            QToolTip.showText(event.globalPosition().toPoint(), self._tip_at(event.position()), self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the drag."""
        was_held, self._held_end, self._pan = self._held_end, None, None
        self.sheet.release()
        if was_held is not None and self.reach is not None:
            self.reach_changed.emit(self.reach, True)
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Show the whole shot."""
        plate = self._session.plate
        if plate is not None and self._strip_at(event.position()) == "ruler":
            self._show_axis(Axis.whole(plate.first, plate.last, self.width()))

    def _press_keys(self, axis: Axis, event: QMouseEvent) -> None:
        """Select keys and take the keyboard focus. A click also goes to the frame."""
        held = event.modifiers()
        adds = bool(held & Qt.KeyboardModifier.ShiftModifier)
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        if not adds:
            self.frame_wanted.emit(axis.frame_at(event.position().x()))
        stretches = bool(held & Qt.KeyboardModifier.ControlModifier)
        self.sheet.press(self._sheet_area(axis), event.position(), adds=adds, stretches=stretches)
        self.update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Show the menu of keys."""
        axis, place = self.axis, QPointF(event.pos())
        if axis is not None and self._strip_at(place) == "keys" and not self.sheet.is_busy:
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            menu = self.sheet.make_key_menu(self, self._sheet_area(axis), place)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())
            self.update()

    def event(self, event: QEvent) -> bool:
        """Claim keys that the dope sheet uses, so that they do not trigger shortcuts."""
        is_shortcut = event.type() == QEvent.Type.ShortcutOverride
        if is_shortcut and isinstance(event, QKeyEvent) and self.sheet.key_action(event) is not None:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pass a key to the dope sheet."""
        act: Callable[[], None] | None = self.sheet.key_action(event)
        if act is None:
            super().keyPressEvent(event)
            return
        act()
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Magnify about the mouse; with Shift scroll the rows of keys."""
        axis = self.axis
        if axis is not None and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._first_row = max(self._first_row - (1 if event.angleDelta().y() > 0 else -1), 0)
            self.update()
        elif axis is not None:
            self._show_axis(axis.zoomed(1.0015 ** event.angleDelta().y(), event.position().x()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Request the thumbnails that the new width needs."""
        self._frames.want_thumbs(self.thumb_frames())

    def tip(self, frame: int) -> str:
        """The facts about a frame, one per line."""
        session, plate = self._session, self._session.plate
        lines = [f"Frame {frame}"]
        if plate is not None and frame not in plate.frames:
            lines.append("not on disk")
        if frame in session.run.failed:
            lines.append(session.run.failed[frame])
        elif frame in session.run.lost:
            lines.append("face not found")
        elif (error := session.run.error_left(frame, {}, session.reviewed_shapes())) is not None:
            lines.append(f"expected error {error:.2f} px")
        first, last = session.run.hold_of(frame)
        if last > first:
            lines.append(f"held {first}-{last}")
        if self.moved is not None and frame in self.moved.by_frame:
            lines.append(f"moved by up to {self.moved.by_frame[frame]:.1f} px just now")
        lines += [f"{part} {piece}" for part, piece in pieces_at(session.xsheet, frame).items()]
        if frame in session.state.marks:
            lines.append(session.state.marks[frame])
        if frame in session.state.notes:
            lines.append(f"note: {session.state.notes[frame]}")
        return "\n".join(lines)

    def _cursor_at(self, axis: Axis, place: QPointF) -> Qt.CursorShape:
        if self._end_at(place) is not None:
            return Qt.CursorShape.SplitHCursor
        is_key = self._strip_at(place) == "keys" and bool(self.sheet.key_at(self._sheet_area(axis), place))
        return Qt.CursorShape.PointingHandCursor if is_key else Qt.CursorShape.ArrowCursor

    def _tip_at(self, place: QPointF) -> str:
        frame = self.frame_at(place.x())
        strip, text = self._strip_at(place), self.tip(frame)
        if strip == "rows":
            name = self._row_name(place.y())
            error = self._session.run.error_at(frame, name)
            text += f"\n{self._session.names.of(name)}: " + ("unknown" if error is None else f"{error:.2f} px")
        if strip == "keys" and self.axis is not None:
            text += self._key_tip(self.sheet.key_at(self._sheet_area(self.axis), place))
        if strip == "reach" and self.reach is not None:
            text = f"Reaches {self.reach.first}-{self.reach.last}: drag an end, Return spreads"
        return text

    def _key_tip(self, places: Collection[KeyPlace]) -> str:
        """The tooltip of a key: its shape or group, the maker of a shape's key, its interpolation."""
        document = self._session.document
        if document is None or not places:
            return ""
        if len(places) > 1:
            return f"\n{len(places)} keys"
        [(name, frame)] = places
        if (group := group_of(name)) is not None:
            return f"\n{group}: key, linear"
        key = document.shape(name).keys[frame]
        return f"\n{self._session.names.of(name)}: {key.source} key, {key.interpolation}"

    def _strip_at(self, place: QPointF) -> str:
        above = [name for name, top in self._tops().items() if top <= place.y() + GAP / 2]
        return above[-1] if above else "ruler"

    def _row_name(self, y: float) -> str:
        names = self._shown_names()[: self._shown_rows()]
        return names[min(max(int((y - self._tops()["rows"]) // ROW), 0), len(names) - 1)]

    def _end_at(self, place: QPointF) -> End | None:
        axis = self.axis
        if self.reach is None or axis is None or self._strip_at(place) != "reach":
            return None
        return end_at(self.reach, axis, place.x())
