"""The picture in the viewer, in two layers: static content is painted once and cached, moving content at every step.

During a drag, the plate and everything that the gesture has not changed are one pixmap. Each step copies it and draws
the rest, which keeps the delay from mouse to screen short with any number of shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QPointF, QRect, QRectF, QSize
from PySide6.QtGui import QColor, QFont, QPainter, QPixmap

from rotopaint_ai.shapes.roto import Landmark, RotoDocument, RotoShape
from rotopaint_ui.drawing.labels import paint_label
from rotopaint_ui.drawing.render import (
    SELECTED,
    Overlay,
    ViewTransform,
    paint_crop,
    paint_handles,
    paint_landmarks,
    paint_matte,
)
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE, FrameCache
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import rig_frames_folder
from rotopaint_ui.tools.toolbox import crop_at
from rotopaint_ui.viewer.loupe import Loupe, paint_loupe
from rotopaint_ui.viewer.outlines import Outline, Outlines, Style, paint_path, paint_place
from rotopaint_ui.viewer.plate_painter import GAIN, PlatePainter
from rotopaint_ui.viewer.wipe import Wipe, paint_wipe

BACKGROUND = QColor("#101114")
ASIDE = 0.45  # outlines of faces that are not the current face
FADED = 0.35  # opacity of still outlines while others are dragged
_FEW = 4  # up to so many moving shapes are painted in full
_MARGIN_PX = 24.0  # around what moves: handles, landmarks, lines


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """The settings of the viewer."""

    size: tuple[int, int]
    ratio: float  # device pixels for one of the screen's
    view: ViewTransform
    overlay: Overlay
    wipe: Wipe | None
    shows_clean: bool
    tool: str
    has_difference: bool = False  # show the difference to the clean plate in its place
    against_last: bool = False  # take the difference to the last rendered clean plate, not to the plate
    shows_last: bool = False  # show the last rendered clean plate, not a preview
    before: RotoDocument | None = None  # earlier shapes, in place of the current ones


@dataclass(frozen=True, eq=False, slots=True)
class PaintScene:
    """The content to paint: `still` is cached, `moving` is painted at every step."""

    shown: ViewSettings
    area: QRectF  # area of the plate on the screen
    facts: tuple[object, ...]  # compared by value
    still: tuple[Outline, ...] = ()
    moving: tuple[Outline, ...] = ()
    still_marks: tuple[Landmark | None, ...] = ()
    moving_marks: tuple[Landmark | None, ...] = ()
    loupe: Loupe | None = None
    things: tuple[object, ...] = field(default=())  # compared by identity

    def stands_as(self, other: PaintScene | None) -> bool:
        """Whether another scene's cached layer is valid for this one."""
        if other is None or self.facts != other.facts or len(self.things) != len(other.things):
            return False
        return all(a is b for a, b in zip(self.things, other.things))

    def moving_box(self) -> QRectF:
        """The largest area that a step repaints, on the screen."""
        view, box = self.shown.view, QRectF()
        for outline in self.moving:
            margin = _MARGIN_PX + ((outline.shape.width_px or 0) / 2 + outline.shape.feather_px) * view.zoom
            box = box.united(outline.box(view, margin))
        for mark in self.moving_marks:
            if mark is not None:
                reach = _MARGIN_PX + mark.expected_error_px * view.zoom
                place = view.to_screen(mark.x, mark.y)
                box = box.united(QRectF(place.x() - reach, place.y() - reach, 2 * reach, 2 * reach))
        return box if self.loupe is None else box.united(self.loupe.box)


class Stack:
    """Paints scenes, and computes which part of the screen a new scene changes."""

    def __init__(self, session: ShotSession, frame_cache: FrameCache, pictures: PlatePainter) -> None:
        self._session, self._frames, self._pictures = session, frame_cache, pictures
        self._outlines = Outlines()
        self._kept: QPixmap | None = None
        self._scene: PaintScene | None = None

    def scene(self, shown: ViewSettings, loupe: Loupe | None = None) -> PaintScene:
        """The current scene."""
        session = self._session
        plate, document = session.plate, shown.before or session.document
        assert plate is not None
        area = shown.view.rect(0, 0, plate.width, plate.height)
        outlines = self._drawn_outlines(document)
        moving = self._moving_outlines(outlines)
        still = tuple(outline for outline in outlines if outline not in moving)
        row = document.landmarks.keys.get(session.frame, ()) if document is not None else ()
        still_marks, moving_marks = self._landmark_marks(row)
        places = session.unseen_places()
        facts = (
            shown,
            self._pictures.key(shows_clean=shown.shows_clean, has_wipe=shown.wipe is not None),
            session.frame,
            session.selection,
            session.edits.is_dragging,
            tuple(session.colours.items()),
            tuple(places.items()),
        )
        things = (*still, *(mark for mark in still_marks if mark is not None))
        return PaintScene(shown, area, facts, still, tuple(moving), still_marks, moving_marks, loupe, things)

    def paint(self, painter: QPainter, scene: PaintScene, font: QFont) -> None:
        """Paint a scene; first the cached layer, if it is out of date."""
        if self._kept is None or not scene.stands_as(self._scene):
            self._paint_kept(scene, font)
        self._scene = scene
        assert self._kept is not None
        painter.drawPixmap(QPointF(0, 0), self._kept)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_moving(painter, scene)
        if scene.shown.wipe is not None:
            paint_wipe(painter, scene.shown.wipe, scene.area, clean=self._clean_name())
        elif scene.shown.shows_clean:
            corner = scene.area.intersected(QRectF(0, 0, *scene.shown.size)).topLeft()
            name = self._clean_name()
            is_apart = scene.shown.has_difference and self._frames.image(CLEAN, self._session.frame) is not None
            base = "last render" if scene.shown.against_last else "plate"
            name = "last render" if scene.shown.shows_last else f"{name} - {base}, x{GAIN}" if is_apart else name
            paint_label(painter, corner + QPointF(10, 10), name)
        if scene.shown.before is not None:
            corner = scene.area.intersected(QRectF(0, 0, *scene.shown.size)).topLeft()
            what = "last save or run" if scene.shown.shows_last else "before"
            paint_label(painter, corner + QPointF(10, 34), what)
        if scene.loupe is not None:
            image = self._frames.image(PLATE, self._session.frame)
            look = self._frames.look_of(PLATE, self._session.frame)
            shrink = 1 if look is None else look.proxy
            paint_loupe(painter, scene.loupe, image, scene.moving or scene.still, shrink=shrink)

    def damage(self, scene: PaintScene) -> QRect | None:
        """The area of the screen that changes from the last scene to this one; None: all of it."""
        if self._scene is None or not scene.stands_as(self._scene):
            return None
        return scene.moving_box().united(self._scene.moving_box()).toAlignedRect()

    # --- parts

    def _clean_name(self) -> str:
        """The name of the plate that is shown as the clean plate."""
        frame = self._session.frame
        if self._frames.is_replaced(CLEAN, frame):
            return "preview"
        if self._frames.image(CLEAN, frame) is None:
            return "no clean frame yet"
        out = self._session.out
        is_rig = out is not None and Path(self._frames.source(CLEAN)) == rig_frames_folder(out)
        return "without the rig" if is_rig else "clean plate"

    def _drawn_outlines(self, document: RotoDocument | None) -> list[Outline]:
        session = self._session
        if document is None:
            return []
        drawn = self._outlines.of(document, session.frame, session.hidden, session.colours)
        if session.runs.is_known(session.frame):
            return drawn
        return [each for each in drawn if _is_placed(each.shape, session.frame)]  # no run has covered this frame

    def _moving_outlines(self, outlines: list[Outline]) -> list[Outline]:
        """The shapes that the current gesture has changed."""
        before = self._session.edits.before_gesture.document
        if not self._session.edits.is_dragging or before is None:
            return []
        old = {shape.name: shape for shape in before.shapes}
        return [outline for outline in outlines if old.get(outline.shape.name) is not outline.shape]

    def _landmark_marks(
        self, row: tuple[Landmark | None, ...]
    ) -> tuple[tuple[Landmark | None, ...], tuple[Landmark | None, ...]]:
        before = self._session.edits.before_gesture.document
        if not self._session.edits.is_dragging or before is None:
            return row, ()
        old = before.landmarks.keys.get(self._session.frame, ())
        if old is row or len(old) != len(row):
            return row, ()
        still = tuple(new if new == was else None for new, was in zip(row, old))
        return still, tuple(new if new != was else None for new, was in zip(row, old))

    def _paint_kept(self, scene: PaintScene, font: QFont) -> None:
        """Paint everything static into the cached layer."""
        ratio = scene.shown.ratio
        size = QSize(*(max(round(side * ratio), 1) for side in scene.shown.size))
        if self._kept is None or self._kept.size() != size:
            self._kept = QPixmap(size)
        self._kept.setDevicePixelRatio(ratio)
        self._kept.fill(BACKGROUND)
        painter = QPainter(self._kept)
        painter.setFont(font)
        shown = scene.shown
        self._pictures.paint(
            painter,
            scene.area,
            wipe=shown.wipe,
            shows_clean=shown.shows_clean,
            has_difference=shown.has_difference,
            against_last=shown.against_last,
            shows_last=shown.shows_last,
        )
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_still(painter, scene)
        painter.end()

    def _paint_still(self, painter: QPainter, scene: PaintScene) -> None:
        session, view, overlay = self._session, scene.shown.view, scene.shown.overlay
        is_painted = scene.shown.shows_clean or scene.shown.wipe is not None  # lines over the paint would hide it
        painter.setOpacity(FADED if session.edits.is_dragging or is_painted else 1.0)
        if overlay.mattes:
            for outline in scene.still:
                paint_matte(painter, outline.shape, session.frame, view, outline.colour)
        if overlay.landmarks:
            paint_landmarks(painter, scene.still_marks, view)
        own, selected, full = session.selection.shape, session.selection.shapes, painter.opacity()
        if overlay.splines:
            for outline in scene.still:
                if outline.shape.name not in selected and not (is_painted and outline.shape.role == "seam"):
                    painter.setOpacity(full * ASIDE if outline.shape.name in session.state.aside else full)
                    paint_path(
                        painter, outline.path, view, outline.colour, style=_style(outline), width=overlay.line_px
                    )
        painter.setOpacity(1.0)
        places = {} if is_painted or session.edits.is_dragging or not overlay.splines else session.unseen_places()
        for outline in scene.still:
            if outline.shape.name in places:
                paint_place(painter, outline.path, places[outline.shape.name], view)
        if overlay.onion and session.shape is not None and own not in session.hidden:
            for path, colour in self._outlines.onion(session.shape, session.frame):
                paint_path(painter, path, view, colour, style="thin")
        for outline in sorted(scene.still, key=lambda outline: outline.shape.name == own):
            if outline.shape.name in selected and overlay.splines:
                self._paint_selected(painter, outline, scene.shown, is_painted=is_painted)

    def _paint_moving(self, painter: QPainter, scene: PaintScene) -> None:
        session, view, overlay = self._session, scene.shown.view, scene.shown.overlay
        quick: Style = "moving" if len(scene.moving) > _FEW else "plain"
        for outline in scene.moving:
            if overlay.mattes:
                paint_matte(painter, outline.shape, session.frame, view, outline.colour)
            if overlay.splines:
                style = quick if outline.is_shown else "dashed"
                colour = QColor(SELECTED) if outline.shape.name in session.selection.shapes else outline.colour
                paint_path(painter, outline.path, view, colour, style=style, width=overlay.line_px)
            chosen = session.selection.points_of(outline.shape.name)
            if chosen and overlay.splines:
                points = tuple(p for index, p in enumerate(outline.points) if index in chosen)
                all_points = frozenset(range(len(points)))
                paint_handles(painter, points, view, QColor(SELECTED), all_points, size=overlay.point_px)
        if overlay.landmarks:
            paint_landmarks(painter, scene.moving_marks, view)
        self._paint_crop(painter, scene)

    def _paint_selected(self, painter: QPainter, outline: Outline, shown: ViewSettings, *, is_painted: bool) -> None:
        view, colour = shown.view, QColor(SELECTED)
        if is_painted and outline.shape.role == "seam":
            painter.setOpacity(FADED)
            paint_path(painter, outline.path, view, colour, style="thin")
            painter.setOpacity(1.0)
            return
        is_last = outline.shape.name == self._session.selection.shape
        style: Style = "bold" if is_last and outline.is_shown else _style(outline)
        paint_path(painter, outline.path, view, colour, style=style, width=shown.overlay.line_px)
        if outline.shape.name not in self._session.locked and not self._session.edits.is_dragging:
            chosen, size = self._session.selection.points_of(outline.shape.name), shown.overlay.point_px
            paint_handles(painter, outline.points, view, colour, chosen, size=size)

    def _paint_crop(self, painter: QPainter, scene: PaintScene) -> None:
        box = crop_at(self._session)
        if box is not None and (scene.shown.tool == "crop" or self._session.document is None):
            place = scene.shown.view.rect(box.x, box.y, box.width, box.height)
            paint_crop(painter, place, is_key=self._session.frame in self._session.state.crops)


def _is_placed(shape: RotoShape, frame: int) -> bool:
    """Whether a shape's position is known: between its first and last key, or anywhere for a drawn shape."""
    is_by_hand = all(key.source == "human" for key in shape.keys.values())
    return is_by_hand or shape.frames[0] <= frame <= shape.frames[-1]


def _style(outline: Outline) -> Style:
    return "plain" if outline.is_shown else "dashed"
