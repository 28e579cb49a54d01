"""The viewer: the plate with a display transform, the overlays on it, and mouse handling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QEnterEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from rotopaint_ai.shapes.roto import ControlPoint, Landmark, RotoDocument
from rotopaint_ui.drawing.labels import paint_label
from rotopaint_ui.drawing.render import Overlay, ViewTransform
from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.session.edit_stack import LET_GO
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.tools.clone import CloneTool
from rotopaint_ui.tools.draw import DrawTool
from rotopaint_ui.tools.edit_actions import carry_out
from rotopaint_ui.tools.select_tool import SelectTool, select_under
from rotopaint_ui.tools.toolbox import TOOLS, EditContext, KeyTool, MouseEvent, ReshapeTool, Tool, crop_at
from rotopaint_ui.viewer.context_menu import make_menu
from rotopaint_ui.viewer.empty import paint_empty
from rotopaint_ui.viewer.hints import paint_near, paint_reach_note
from rotopaint_ui.viewer.loupe import MOST_ZOOM, Loupe, loupe_at
from rotopaint_ui.viewer.plate_painter import PlatePainter
from rotopaint_ui.viewer.readout import Readout, landmark_note
from rotopaint_ui.viewer.stack import BACKGROUND, Stack, ViewSettings
from rotopaint_ui.viewer.waiting import WaitingNote
from rotopaint_ui.viewer.wipe import Wipe, WipeGrip

_LEAST_MARKS, _AROUND_MARKS = 3, 1.4  # landmarks that tell where the face is, and its size in that of their box
ZOOM_STEP = 2**0.5
ZOOM_DRAG_PX = 100.0  # width of a drag that doubles the magnification
BURST_MS = 700  # milliseconds without a key, after which the next nudge is a new step
LATE_MS = 12  # time that a moved landmark waits for its shapes before it is painted alone
_BARE_TOOLS = ("draw", "width", "clone", "crop")  # tools under which hints on landmarks would hide the picture
_SPLINE_TOOLS = ("select", "lasso", "reshape", "points", "transform", "width")  # tools that grab what splines show
_QUIET_TOOLS = ("select", "lasso", "landmark", "points")  # tools that draw nothing besides the dragged shape


class Canvas(QWidget):
    """The viewer. The wheel zooms at the cursor, the middle button or Alt drags the plate, both together zoom; the left
    button is the tool's."""

    readout_changed = Signal(str)  # what is under the mouse
    relink_wanted = Signal()  # the artist wants to locate the plate of a waiting project
    reach_changed = Signal()  # how far edits reach: `context.reach`
    edited = Signal(str)  # the edit that was carried out, by name

    def __init__(self, session: ShotSession, frame_cache: FrameCache, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.context = EditContext(session)
        self.commands: Mapping[str, QAction] = {}  # by name; their keys stand in the context menu
        self.view = ViewTransform()
        self.overlay = Overlay()
        self.wipe: Wipe | None = None
        self.shows_clean = False
        self.has_difference = False
        self.against_last = False  # the difference is taken to the last rendered clean plate, not to the plate
        self.shows_last = False  # show the last rendered clean plate in place of a preview
        # Earlier shapes that are shown in place of the current ones, to compare.
        self.before: RotoDocument | None = None
        self._session, self._frames = session, frame_cache
        self._tools: dict[str, Tool] = {name: make(self.context) for name, make in TOOLS.items()}
        session.leaving.append(self.end_drawing)
        self._tool = "select"
        self._is_held = False  # the left button is down, with the tool
        self._pan: QPointF | None = None
        self._zooming: tuple[QPointF, ViewTransform] | None = None  # where a drag that zooms began, and the view then
        self._wiping: WipeGrip | None = None
        self._hover: QPointF | None = None
        self._is_fitted = True
        self._rate = ""
        self._burst = QTimer(self, singleShot=True, interval=BURST_MS)
        self._burst.timeout.connect(session.edits.end_burst)
        self._late = QTimer(self, singleShot=True, interval=LATE_MS)
        self._late.timeout.connect(self._paint_damage)
        self._stack = Stack(session, frame_cache, PlatePainter(session, frame_cache, self.update, self))
        self._readout = Readout(session, frame_cache, self)
        self._readout.text_changed.connect(self.readout_changed)
        self._waiting = WaitingNote(self, session)
        self._waiting.wanted.connect(self.relink_wanted)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 160)

    # --- what is shown

    @property
    def tool(self) -> str:
        """Name of the chosen tool."""
        return self._tool

    @tool.setter
    def tool(self, name: str) -> None:
        if name == self._tool and self._tools[name].is_busy:
            return  # the tool's key again: continue drawing
        if self._tool == "draw" and self._tools["draw"].is_busy and self._session.runs.is_live:
            self._session.say("A run is under way: the shape that is begun can be ended after it")
            return
        if self._is_held and self._session.edits.is_dragging:
            self._session.say(LET_GO)
            return
        self.end_drawing()
        self._tools[self._tool].cancel()
        self._session.edits.end_burst()
        self._tool = name
        self.context.takes = "landmarks" if name == "landmark" else "crop" if name == "crop" else "points"
        self.update()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools, in the order of the tool strip."""
        return tuple(self._tools)

    def edit(self, name: str) -> bool:
        """Carry out an edit of `edit_actions.EDIT_ACTIONS`; False where it does nothing, or a drag is in progress."""
        if self._tools[self._tool].is_busy:
            return False
        had = self.context.reach
        done = carry_out(self.context, name)
        if self.context.reach != had:
            self.reach_changed.emit()
        if name.startswith("nudge"):
            self._burst.start()
        if done:
            self.edited.emit(name)
        self.update()
        return done

    def is_on(self, name: str) -> bool:
        """Whether the edit `ripple` or `overwrite` is switched on."""
        mode = "relative" if name == "ripple" else "absolute"
        return self.context.mode == mode

    def set_span(self, span: tuple[int, int] | None) -> None:
        """Set the frames, both ends included, that multi-frame edits reach; None: the whole shot."""
        self._session.set_span(span)
        self.reach_changed.emit()

    def set_weights(self, line_px: float, point_px: float) -> None:
        """Set the width of lines and the size of points, in screen pixels."""
        self.overlay = replace(self.overlay, line_px=line_px, point_px=point_px)
        self.update()

    def show_rate(self, shown: float, dropped: int) -> None:
        """Show the playback rate in frames per second, and how many frames the last second dropped; 0 hides it."""
        self._rate = f"{shown:.0f} fps" + (f", {dropped} dropped" if dropped else "") if shown else ""
        self.update()

    def show_wipe(self, shown: bool) -> None:
        """Switch the wipe between plate and clean plate on or off."""
        self.wipe = Wipe() if shown else None
        self.update()

    def fit(self) -> None:
        """Show the whole plate."""
        plate = self._session.plate
        if plate is not None:
            self._show_box(QRectF(0, 0, plate.width, plate.height), 1.0)
            self._is_fitted = True

    def fit_face(self) -> None:
        """Fit this frame's landmarks, else the crop box, else all shapes; without any, the whole plate.

        With the crop tool the box comes first, because it may stay while the face moves away.
        """
        box, document = crop_at(self._session), self._session.document
        marks = [each for each in self.context.landmark_row if each is not None]
        points = [p for shape in document.shapes for p in shape.at(self._session.frame)] if document is not None else []
        if len(marks) >= _LEAST_MARKS and (box is None or self._tool != "crop"):
            self._show_box(_box_around(marks), _AROUND_MARKS)
        elif box is not None:
            self._show_box(QRectF(box.x, box.y, box.width, box.height), 1.25)
        elif points:
            self._show_box(_box_around(points), 1.25)
        else:
            self.fit()

    def one_to_one(self) -> None:
        """Show one plate pixel per device pixel, at any scale of the screen."""
        self.zoom_to(1.0 / self.devicePixelRatioF())

    @property
    def is_fitted(self) -> bool:
        """Whether the whole plate is shown and stays fitted when the viewer is resized."""
        return self._is_fitted

    def look_at(self, x: float, y: float, zoom: float) -> None:
        """Show a place of the plate in the middle, with `zoom` screen pixels per plate pixel."""
        aspect = self.view.aspect
        self._set_view(ViewTransform(zoom, self.width() / 2 - x * zoom * aspect, self.height() / 2 - y * zoom, aspect))

    def zoom_in(self) -> None:
        """Zoom in by one step about the middle."""
        self.zoom_to(self.view.zoom * ZOOM_STEP)

    def zoom_out(self) -> None:
        """Zoom out by one step about the middle."""
        self.zoom_to(self.view.zoom / ZOOM_STEP)

    def zoom_to(self, zoom: float) -> None:
        """Zoom to `zoom` screen pixels per plate pixel, about the middle."""
        centre = QPointF(self.width() / 2, self.height() / 2)
        self._set_view(self.view.zoomed(zoom / self.view.zoom, centre))

    def brush_larger(self) -> None:
        """Make the brush one step larger."""
        self._brush(1)

    def brush_smaller(self) -> None:
        """Make the brush one step smaller."""
        self._brush(-1)

    @property
    def is_held(self) -> bool:
        """Whether the tool is in use: a drag, an unfinished shape, or a rubber band."""
        return self._is_held or self._tools[self._tool].is_busy

    def end_drawing(self) -> None:
        """Finish a shape that is being drawn, before it would be lost or left out of what is saved."""
        draw = self._tools["draw"]
        assert isinstance(draw, DrawTool)
        draw.leave()

    def cancel_gesture(self) -> None:
        """Cancel the current drag."""
        self._session.edits.end_burst()
        self._is_held = False
        self._tools[self._tool].cancel()
        self.update()

    def refresh(self) -> None:
        """Repaint only what a change of the session affects."""
        self._waiting.refresh()
        if self._readout.frame != self._session.frame:
            self._read_out()
        if self._session.plate is None or not self._session.edits.is_dragging or self._tool not in _QUIET_TOOLS:
            self.update()
            return
        if self._session.corrections.is_asking:  # landmark and shapes are painted together: one picture for one move
            if not self._late.isActive():
                self._late.start()
            return
        self._paint_damage()

    def _paint_damage(self) -> None:
        """Repaint what a drag has changed."""
        self._late.stop()
        if self._session.plate is None:
            return
        damage = self._stack.damage(self._stack.scene(self._view_settings(), self._loupe()))
        if damage is None:
            self.update()
        else:
            self.update(damage)

    def _brush(self, direction: int) -> None:
        """The current tool's brush if it has one, else the reshape brush."""
        brush = self._tools[self._tool if self._tool == "clone" else "reshape"]
        assert isinstance(brush, ReshapeTool | CloneTool)
        brush.resize(direction)
        self.update()

    def _show_box(self, box: QRectF, air: float) -> None:
        plate = self._session.plate
        aspect = plate.pixel_aspect if plate is not None else 1.0
        zoom = min(self.width() / (box.width() * aspect * air), self.height() / (box.height() * air))
        zoom = min(max(zoom, 0.02), 64.0)
        left = self.width() / 2 - box.center().x() * zoom * aspect
        self._set_view(ViewTransform(zoom, left, self.height() / 2 - box.center().y() * zoom, aspect))

    def _set_view(self, view: ViewTransform) -> None:
        self.view, self._is_fitted = view.snapped(self.devicePixelRatioF()), False
        self._read_out()
        self.update()

    # --- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw plates and overlays, then the tool, then what is under the mouse."""
        painter = QPainter(self)
        if self._session.plate is None:
            painter.fillRect(self.rect(), BACKGROUND)
            if self._session.project.awaits_plate:
                return
            paint_empty(painter, QRectF(self.rect()))
            return
        painter.setClipRect(event.rect())
        self._stack.paint(painter, self._stack.scene(self._view_settings(), self._loupe()), self.font())
        self._tools[self._tool].paint(painter, self.view)
        has_hints = self.overlay.landmarks and self._tool not in _BARE_TOOLS
        if has_hints:
            chosen = self.context.landmarks if self._tool == "landmark" else frozenset()
            paint_near(painter, self.context.landmark_row, self.view, self._hover, chosen)
        if self._hover is not None and has_hints and not self._session.edits.is_dragging:
            note = landmark_note(self._session, self.view, self._hover)
            if note:
                paint_label(painter, self._hover + QPointF(14, 10), note)
        if self._rate:
            paint_label(painter, QPointF(self.width() - 10, 10), self._rate, is_right=True)
        paint_reach_note(painter, self.context.reach, self.height())

    def _view_settings(self) -> ViewSettings:
        size, ratio = (self.width(), self.height()), self.devicePixelRatioF()
        return ViewSettings(
            size,
            ratio,
            self.view,
            self.overlay,
            self.wipe,
            self.shows_clean,
            self._tool,
            self.has_difference,
            self.against_last,
            self.shows_last,
            self.before,
        )

    def _loupe(self) -> Loupe | None:
        is_dragging = self._session.edits.is_dragging and self._tools[self._tool].is_busy and self._tool in _QUIET_TOOLS
        if not is_dragging or not self.overlay.loupe or self._hover is None or self.view.zoom > MOST_ZOOM:
            return None
        return loupe_at(self._hover, self.view, self.size())

    # --- the mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Start to pan, to move the wipe, or the tool's gesture."""
        self.setFocus()
        self._hover = event.position()
        mouse, is_left = self._mouse_event(event), event.button() == Qt.MouseButton.LeftButton
        if event.button() == Qt.MouseButton.MiddleButton and mouse.alt:
            self._zooming = event.position(), self.view
            self.setCursor(Qt.CursorShape.SizeHorCursor)
        elif event.button() == Qt.MouseButton.MiddleButton or (is_left and mouse.alt and not mouse.ctrl):
            self._pan = event.position()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        elif is_left:
            self._wiping = self._wipe_grip(event.position())
            self._is_held = self._wiping is None and not self._grabs_unseen()
            if self._is_held:
                self._tools[self._tool].press(mouse)
        self.update()

    def _grabs_unseen(self) -> bool:
        """Whether what the tool would grab is not drawn; says so."""
        shown = self.overlay
        hidden = {**dict.fromkeys(_SPLINE_TOOLS, not shown.splines), "landmark": not shown.landmarks}
        is_unseen = hidden.get(self._tool, False) and not self._tools[self._tool].is_busy
        if is_unseen:
            what = "Landmarks" if self._tool == "landmark" else "Splines"
            self._session.say(f"{what} are switched off in the viewer: show them to change them")
        return is_unseen

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Continue the gesture that the press started."""
        self._hover = event.position()
        mouse = self._mouse_event(event)
        self._read_out()
        if self._is_held and not event.buttons() & Qt.MouseButton.LeftButton:  # the release went to another window
            self._is_held = False
            self._tools[self._tool].release(mouse)
        if self._zooming is not None:
            place, view = self._zooming
            self._set_view(view.zoomed(2 ** ((event.position().x() - place.x()) / ZOOM_DRAG_PX), place))
        elif self._pan is not None:
            delta = event.position() - self._pan
            self._pan = event.position()
            self._set_view(
                ViewTransform(self.view.zoom, self.view.x + delta.x(), self.view.y + delta.y(), self.view.aspect)
            )
        elif event.buttons() & Qt.MouseButton.LeftButton:
            if self._wiping is not None:
                self._drag_wipe(self._wiping, mouse)
            elif self._is_held:
                self._tools[self._tool].drag(mouse)
            self.refresh()
        else:
            is_wipe = self._wipe_grip(event.position()) is not None
            self.setCursor(Qt.CursorShape.SizeAllCursor if is_wipe else self._tools[self._tool].cursor(mouse))
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the gesture."""
        if self._pan is not None or self._zooming is not None:
            self._pan = self._zooming = None
            self.unsetCursor()
        elif event.button() == Qt.MouseButton.LeftButton:
            if self._is_held:
                self._tools[self._tool].release(self._mouse_event(event))
            self._wiping, self._is_held = None, False
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Select all points of the shape that was clicked."""
        self.mousePressEvent(event)
        selects = isinstance(self._tools[self._tool], SelectTool) and self._session.shape is not None
        if event.button() == Qt.MouseButton.LeftButton and self._is_held and selects:
            self.edit("select_all")

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Show the context menu of the selection."""
        if self._session.document is not None and not self._tools[self._tool].is_busy:
            select_under(self.context, MouseEvent(QPointF(event.pos()), self.view, event.modifiers()))
            menu = make_menu(self, self.context, self.edit, self.commands)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())

    def event(self, event: QEvent) -> bool:
        """Claim keys that the tool uses now, so that they do not trigger shortcuts."""
        is_shortcut = event.type() == QEvent.Type.ShortcutOverride
        if is_shortcut and isinstance(event, QKeyEvent) and self._key_action(event) is not None:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pass a key to the tool."""
        act = self._key_action(event)
        if act is None:
            super().keyPressEvent(event)
            return
        act()
        self.update()

    def _key_action(self, event: QKeyEvent) -> Callable[[], None] | None:
        tool = self._tools[self._tool]
        return tool.key_action(event) if isinstance(tool, KeyTool) else None

    def hideEvent(self, event: object) -> None:
        """End the gesture when the viewer is hidden."""
        if self._is_held:
            self.cancel_gesture()

    def leaveEvent(self, event: object) -> None:
        """Clear what is shown at the mouse."""
        self._hover = None
        self._read_out()
        self.update()

    def enterEvent(self, event: QEnterEvent) -> None:
        """Note that the mouse is over the viewer."""
        self._hover = event.position()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the cursor."""
        self._set_view(self.view.zoomed(1.0015 ** event.angleDelta().y(), event.position()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep a fitted plate fitted; otherwise keep the place in the middle."""
        self._waiting.place()
        if self._is_fitted:
            self.fit()
        elif event.oldSize().isValid():
            dx = (event.size().width() - event.oldSize().width()) / 2
            dy = (event.size().height() - event.oldSize().height()) / 2
            self.view = ViewTransform(self.view.zoom, self.view.x + dx, self.view.y + dy, self.view.aspect)

    def _mouse_event(self, event: QMouseEvent) -> MouseEvent:
        return MouseEvent(event.position(), self.view, event.modifiers())

    def _wipe_grip(self, point: QPointF) -> WipeGrip | None:
        plate = self._session.plate
        if self.wipe is None or plate is None:
            return None
        return self.wipe.grip_at(point, self.view.rect(0, 0, plate.width, plate.height))

    def _drag_wipe(self, grip: WipeGrip, mouse: MouseEvent) -> None:
        plate = self._session.plate
        if plate is None or self.wipe is None:
            return
        area = self.view.rect(0, 0, plate.width, plate.height)
        if grip == "turn":
            self.wipe = self.wipe.turned(mouse.point, area, snaps=mouse.shift)
        else:
            self.wipe = self.wipe.moved(mouse.point, area)

    def _read_out(self) -> None:
        """Report the values under the mouse; nothing while the mouse is outside."""
        place = None if self._hover is None or self._session.plate is None else self.view.to_plate(self._hover)
        self._readout.look(place, self.view.zoom * self.devicePixelRatioF())


def _box_around(points: Iterable[ControlPoint | Landmark]) -> QRectF:
    """The bounding box of points in plate pixels, at least 8 pixels wide and high."""
    xs, ys = zip(*((p.x, p.y) for p in points))
    return QRectF(min(xs), min(ys), max(max(xs) - min(xs), 8), max(max(ys) - min(ys), 8))
