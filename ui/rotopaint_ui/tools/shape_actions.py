"""Edits of whole shapes: add a drawn shape, copy, delete. Each is one undo step."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from rotopaint_ai.project.state import State
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, Key, Points, RotoDocument, RotoShape
from rotopaint_ui.tools.edit_context import EditContext

LEAST_POINTS: Mapping[bool, int] = {True: 3, False: 2}  # fewest points of a closed shape, and of an open shape


def add_drawn(context: EditContext, points: Points, *, closed: bool, frame: int) -> bool:
    """Add a shape with its first key, set by hand, and select it: closed, a matte; open, a seam."""
    if len(points) < LEAST_POINTS[closed]:
        kind = "A closed" if closed else "An open"
        context.session.say(f"{kind} shape needs {LEAST_POINTS[closed]} points; this one has {len(points)}")
        return False
    name = free_shape_name(context.session.state, "hand_matte" if closed else "hand_seam")
    shape = RotoShape(
        name=name,
        closed=closed,
        role="matte" if closed else "seam",
        keys={frame: Key(points, "human")},
        width_px=None if closed else DEFAULT_WIDTH_PX,
    )
    label = "draw matte" if closed else "draw seam"
    done = context.put(label, lambda document: edit.add_shape(document, shape), starts=True)
    if done:
        context.session.select(name)
    return done


def duplicate_shapes(context: EditContext) -> bool:
    """Copy the selected shapes with all their keys and select the copies; models do not change copies."""
    session, shapes = context.session, context.chosen_shapes
    if not shapes or not context.is_free:
        return False
    state, made = session.state, []
    for shape in shapes:
        name = free_shape_name(state, re.sub(r"_\d+$", "", shape.name))
        keys = {frame: replace(key, source="human") for frame, key in shape.keys.items()}
        copy = replace(shape, name=name, keys=keys)
        assert state.document is not None
        seams = {**state.seams, name: state.seams[shape.name]} if shape.name in state.seams else state.seams
        state = replace(state, document=edit.add_shape(state.document, copy), seams=seams)
        made.append(name)
    session.edits.push(f"duplicate {_count_names(made)}", state)
    session.select(made[-1], also=made)
    return True


def delete_shapes(context: EditContext) -> bool:
    """Delete the selected shapes with their settings; a message says that Run makes the models' shapes again."""
    session, shapes = context.session, context.chosen_shapes
    if not shapes or not context.is_free:
        return False
    names = [shape.name for shape in shapes]
    session.edits.push(f"delete {_count_names(names)}", _without_shapes(session.state, names))
    session.select(None)
    predicted = session.state.predicted
    model = {shape.name for shape in predicted.shapes} if predicted is not None else set()
    if model & set(names):
        session.say(
            f"Deleted {_count_names(names)}. Run makes the models' again: Strength 0 in Seam leaves one unpainted"
        )
    return True


def hold_out(context: EditContext) -> bool:
    """Make the selected closed shapes hold-outs, which are subtracted from all others; if all are, undo that."""
    shapes = [shape for shape in context.chosen_shapes if shape.closed]
    if context.chosen_shapes and not shapes:
        context.session.say("Only closed shapes hold out; this one is open")
    on = not all(shape.subtract for shape in shapes)

    def change(document: RotoDocument) -> RotoDocument:
        for shape in shapes:
            document = edit.replace_shape(
                document, shape.name, replace(edit.shape_of(document, shape.name), subtract=on)
            )
        return document

    return bool(shapes) and context.put("hold out" if on else "no hold-out", change)


def begin_here(context: EditContext) -> bool:
    """Make the selected shapes visible from this frame on."""
    return _set_lifetimes(context, "seen from here", lambda first, last: (context.session.frame, last))


def end_here(context: EditContext) -> bool:
    """Make the selected shapes visible up to this frame, or the end of its hold."""
    return _set_lifetimes(context, "seen up to here", lambda first, last: (first, context.session.held_frames()[-1]))


def show_always(context: EditContext) -> bool:
    """Make the selected shapes visible at every frame."""
    shapes = context.chosen_shapes

    def show(document: RotoDocument) -> RotoDocument:
        for shape in shapes:
            document = edit.set_visible(document, shape.name, shape.visible, shown=True)
        return document

    return bool(shapes) and context.put("always seen", show)


def hide_here(context: EditContext) -> bool:
    """Hide the selected shapes at this frame and its hold; if all are hidden, show them."""
    session, shapes = context.session, context.chosen_shapes
    is_hidden = not any(shape.is_visible(session.frame) for shape in shapes)

    def change(document: RotoDocument) -> RotoDocument:
        for shape in shapes:
            document = edit.set_visible(document, shape.name, session.held_frames(), shown=is_hidden)
        return document

    return bool(shapes) and context.put("show here" if is_hidden else "hide here", change)


def _set_lifetimes(context: EditContext, label: str, bounds: Callable[[int, int], tuple[int, int]]) -> bool:
    """Set lifetimes; one that would end before it begins is extended to the end of the shot on the other side."""
    shapes = context.chosen_shapes

    def extend_lifetimes(document: RotoDocument) -> RotoDocument:
        whole = document.first_frame, document.last_frame
        for shape in shapes:
            first, last = bounds(*(edit.lifetime(document, shape.name) or whole))
            if last < first:
                first, last = bounds(*whole)
            document = edit.set_lifetime(document, shape.name, first, last)
        return document

    return bool(shapes) and context.put(label, extend_lifetimes)


def free_shape_name(state: State, stem: str) -> str:
    """The stem with the first number that makes a name no shape of the shot or of a model has."""
    documents = [each for each in (state.document, state.predicted) if each is not None]
    taken = {shape.name for document in documents for shape in document.shapes} | set(state.names.values())
    taken = {name.casefold() for name in taken}
    return next(name for k in count(1) if (name := f"{stem}_{k}").casefold() not in taken)


def _without_shapes(state: State, names: Collection[str]) -> State:
    assert state.document is not None
    document = state.document
    for name in names:
        document = edit.remove_shape(document, name)
    return replace(
        state,
        document=document,
        seams={name: each for name, each in state.seams.items() if name not in names},
        names={name: each for name, each in state.names.items() if name not in names},
    )


def _count_names(names: Sequence[str]) -> str:
    return "shape" if len(names) == 1 else f"{len(names)} shapes"
