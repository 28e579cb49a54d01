"""Edits at the current frame and at all keys that edits reach, one undo step each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.shapes import edit_frames
from rotopaint_ai.shapes.edit_frames import Carry, Change
from rotopaint_ai.shapes.group_moves import move_with_groups
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.manual_keys import LandmarkRow
from rotopaint_ai.shapes.roto import Points, RotoDocument, RotoShape
from rotopaint_ui.session.seam_settings import with_fitting_profiles
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import empty_document

EditTarget = Literal["points", "landmarks", "crop"]  # points: of the selected shapes
PointsChange = Callable[[RotoShape, frozenset[int]], Change]  # the change of some points of a shape


@dataclass(frozen=True, slots=True)
class EditReach:
    """The keys that an edit reaches besides its own frame: those from first to last, both included."""

    first: int
    last: int
    mode: Carry = "relative"


class EditContext:
    """Changes those shapes of a session that may be changed. Holds copied shapes, and which keys edits reach."""

    def __init__(self, session: ShotSession) -> None:
        self.session = session
        self.mode: Carry | None = None  # the mode in which edits reach other keys; None: they do not
        self.copied: dict[str, Points] = {}
        self.landmarks: frozenset[int] = frozenset()  # those that are selected
        self.takes: EditTarget = "points"  # what keys act on
        self._offset = 0.0, 0.0  # offset of repeated key presses

    @property
    def reach(self) -> EditReach | None:
        """The keys that an edit reaches besides its own frame; None: no others."""
        plate = self.session.plate
        if self.mode is None or plate is None:
            return None
        first, last = self.session.span or (plate.first, plate.last)
        return EditReach(first, last, self.mode)

    @property
    def landmark_row(self) -> LandmarkRow:
        """The landmarks at the current frame; None for a hidden one."""
        document = self.session.document
        return document.landmarks.keys.get(self.session.frame, ()) if document is not None else ()

    # --- what may be touched

    @property
    def is_open(self) -> bool:
        """Whether the shot may be changed now; if not, shows the reason."""
        return not (self.session.must_wait() or self.session.project.refuses())

    @property
    def is_free(self) -> bool:
        """Whether there are shapes that may be changed now; if not, shows the reason."""
        return self.session.document is not None and self.is_open

    def can_grab(self, shape: RotoShape) -> bool:
        """Whether a shape is neither hidden nor locked."""
        return shape.name not in self.session.hidden and shape.name not in self.session.locked

    @property
    def free_shapes(self) -> tuple[RotoShape, ...]:
        """All shapes that are neither hidden nor locked, in the document's order."""
        document = self.session.document
        return () if document is None else tuple(shape for shape in document.shapes if self.can_grab(shape))

    @property
    def why_not(self) -> str:
        """The reason why an edit has no effect on the selection."""
        document, shape = self.session.document, self.session.shape
        if document is None:
            return "There are no shapes yet: press Run first"
        if shape is None:
            return "Select a shape first: click its curve, or its row in Shapes"
        name = self.session.names.of(shape.name)
        return self.why_held(shape.name) or f"Nothing to do for {name} at frame {self.session.frame}"

    def why_held(self, shape_name: str) -> str:
        """The reason why a shape cannot be changed; empty if it can."""
        shown = self.session.names.of(shape_name)
        if shape_name in self.session.locked:
            return f"{shown} is locked: its lock in Shapes opens it"
        return f"{shown} is hidden: its eye in Shapes shows it" if shape_name in self.session.hidden else ""

    @property
    def shape(self) -> RotoShape | None:
        """The selected shape, if it may be changed."""
        shape = self.session.shape
        return shape if shape is not None and self.can_grab(shape) else None

    @property
    def chosen_shapes(self) -> tuple[RotoShape, ...]:
        """All selected shapes that may be changed, in the document's order."""
        names = self.session.selection.shapes
        return tuple(shape for shape in self.free_shapes if shape.name in names)

    @property
    def last_selected_first(self) -> list[RotoShape]:
        """The same, those without keys left out, the shape that was selected last first."""
        shapes = [shape for shape in self.chosen_shapes if shape.keys]
        return sorted(shapes, key=lambda shape: shape.name != self.session.selection.shape)

    @property
    def layer(self) -> Layer | None:
        """The selected layer, if a whole layer is selected."""
        document, name = self.session.document, self.session.selection.layer
        layers = document.layers if document is not None and name is not None else ()
        return next((layer for layer in layers if layer.name == name), None)

    @property
    def selected_points(self) -> dict[str, frozenset[int]]:
        """The selected points of every shape that may be changed; one that an undo took away is none."""
        chosen = self.session.selection.points
        shapes = [shape for shape in self.chosen_shapes if shape.name in chosen]
        points = {shape.name: chosen[shape.name] & frozenset(range(shape.n_points)) for shape in shapes}
        return {name: own for name, own in points.items() if own}

    @property
    def chosen_by_shape(self) -> dict[str, frozenset[int]]:
        """The points that are edited together: the selected ones; without any, all points of every selected shape."""
        return self.selected_points or {
            shape.name: frozenset(range(shape.n_points)) for shape in self.chosen_shapes if shape.keys
        }

    # --- changes

    def edit_shape_at(self, document: RotoDocument, name: str, change: Change) -> RotoDocument:
        """The document with a shape changed at the current frame, its hold, and the keys that edits reach."""
        frame, held = self.session.frame, self.session.held_frames()
        if self.reach is None:
            return edit_frames.apply(document, name, held, change)
        frames = frozenset(range(self.reach.first, self.reach.last + 1)) | frozenset(held)
        points = change(document.shape(name).at(frame))
        return edit_frames.carry(document, name, frame, points, frames=frames, mode=self.reach.mode)

    def reached_frames(self, shape: RotoShape) -> list[int]:
        """The current frame, the others of its hold, and the keyed frames of a shape that edits reach."""
        frames = set(self.session.held_frames())
        if self.reach is not None:
            frames |= set(edit_frames.keyed_frames_in(shape, self.reach.first, self.reach.last))
        return sorted(frames)

    def change_points(self, label: str, change: PointsChange) -> bool:
        """Change the selected points, or without any all of the selected shapes, in one step.

        False where nothing can be changed.
        """
        chosen = self.chosen_by_shape
        if not chosen or not self.is_free:
            return False

        def change_each(document: RotoDocument) -> RotoDocument:
            for name, own in chosen.items():
                document = self.edit_shape_at(document, name, change(document.shape(name), own))
            return document

        return self.put(label, change_each)

    def put(self, label: str, make: Callable[[RotoDocument], RotoDocument], *, starts: bool = False) -> bool:
        """Change to another document in one undo step; errors are shown, and which shapes kept their last keys.

        `starts`: begin with an empty document if the shot has none.
        """
        document = self.session.state.document
        if document is None and starts and self.session.plate is not None:
            document = empty_document(self.session.plate)
        if document is None or not self.is_open:
            return False
        kept = ""
        try:
            new = make(document)
        except edit_frames.KeysKeptError as error:
            new, kept = error.document, str(error)
        except RotopaintError as error:
            self.session.say(self.session.names.in_message(str(error)))
            return False
        predicted = move_with_groups(self.session.state.predicted, document, new)
        state = replace(self.session.state, document=new, predicted=predicted)
        self.session.edits.push(label, with_fitting_profiles(state))
        if kept:
            self.session.say(self.session.names.in_message(kept))
        return True

    def nudge(self, label: str, dx: float, dy: float, what: object) -> tuple[float, float]:
        """Add a key press to a burst that moves one thing; returns the whole offset so far, plate pixels."""
        x, y = self._offset if self.session.edits.begin_burst(label, what) else (0.0, 0.0)
        self._offset = x + dx, y + dy
        return self._offset

    def preview(self, name: str, change: Change) -> None:
        """Inside a gesture: show a shape with a change relative to the start of the gesture."""
        self.preview_shapes({name: change})

    def preview_shapes(self, changes: Mapping[str, Change]) -> None:
        """Inside a gesture: show shapes changed relative to the start of the gesture."""
        before = self.session.edits.before_gesture
        document = before.document
        if document is None:
            return
        for name, change in changes.items():
            document = self.edit_shape_at(document, name, change)
        self.session.edits.preview(replace(before, document=document))

    def preview_document(self, make: Callable[[RotoDocument], RotoDocument]) -> None:
        """Inside a gesture: show `make(document)` of the document at its start; predictions move with their groups."""
        before = self.session.edits.before_gesture
        if before.document is not None:
            document = make(before.document)
            predicted = move_with_groups(before.predicted, before.document, document)
            self.session.edits.preview(replace(before, document=document, predicted=predicted))
