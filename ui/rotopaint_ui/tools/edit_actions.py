"""Edits by a key or a menu; each acts on the selection in one undo step, and returns whether it did anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from rotopaint_ai.errors import list_names
from rotopaint_ai.exchange.document import MOST_WIDTH_PX
from rotopaint_ai.frames import summarise
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes import edit_frames, edit_layers, edit_tangents
from rotopaint_ai.shapes.edit import set_feather
from rotopaint_ai.shapes.edit_feather import clear_feather, outward_offset, pull_feather
from rotopaint_ai.shapes.edit_frames import Carry
from rotopaint_ai.shapes.edit_transform import transform, translation
from rotopaint_ai.shapes.roto import Interpolation, Points, RotoDocument, RotoShape
from rotopaint_ui.session.seam_settings import with_settings
from rotopaint_ui.session.selection import Selection
from rotopaint_ui.tools import crop_actions as crop
from rotopaint_ui.tools import landmark_actions as landmarks
from rotopaint_ui.tools import layer_actions as layers
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.points import delete_points_of
from rotopaint_ui.tools.shape_actions import (
    begin_here,
    delete_shapes,
    duplicate_shapes,
    end_here,
    hide_here,
    hold_out,
    show_always,
)

EditAction = Callable[[EditContext], bool]
FEATHER_STEP_PX = 1.0


def nudge_points(context: EditContext, dx: float, dy: float) -> bool:
    """Move the selected points, or all selected shapes, by plate pixels; with their tools, landmarks or the crop box.

    Repeated presses are one step.
    """
    if context.takes == "landmarks":
        return landmarks.nudge_landmarks(context, dx, dy)
    if context.takes == "crop":
        return crop.nudge_crop(context, dx, dy)
    chosen, layer = context.chosen_by_shape, context.layer
    if not chosen or not context.is_free:
        return False
    if layer is not None:
        frame = context.session.frame
        x, y = context.nudge("nudge group", dx, dy, (frame, layer.name))
        before = context.session.edits.before_gesture.document
        assert before is not None
        still = edit_layers.layer_of(before, layer.name)
        pivot = edit_layers.middle_of(before, layer.name, frame)
        layers.preview_pose(context, still, layers.shifted_pose(still, frame, pivot, x, y))
        return True
    x, y = context.nudge("nudge", dx, dy, (context.session.frame, tuple(chosen.items()), context.reach))
    context.preview_shapes(
        {name: partial(transform, affine=translation(x, y), indices=own) for name, own in chosen.items()}
    )
    return True


def smooth_points(context: EditContext) -> bool:
    """Turn the tangents of the chosen points parallel to the line between their neighbours."""
    return context.change_points(
        "smooth points", lambda shape, chosen: partial(edit_tangents.smooth, indices=chosen, closed=shape.closed)
    )


def cusp_points(context: EditContext) -> bool:
    """Make the selected points corners."""
    return context.change_points("cusp points", lambda _, chosen: partial(edit_tangents.cusp, indices=chosen))


def join(context: EditContext) -> bool:
    """Align the two tangents of each selected point."""
    return context.change_points("join tangents", lambda _, chosen: partial(edit_tangents.join, indices=chosen))


def mirror_chosen(context: EditContext) -> bool:
    """Align the two tangents of each selected point, and make them equally long."""
    return context.change_points(
        "mirror tangents", lambda _, chosen: partial(edit_tangents.mirror_tangents, indices=chosen)
    )


def delete_chosen(context: EditContext) -> bool:
    """Delete the selected points, or with its tool the crop box; never a whole shape or a landmark."""
    if context.takes == "crop":
        return crop.delete_crop(context)
    if context.takes == "landmarks":
        context.session.say("Landmarks are the sheet's: none can be taken away. Move it where it belongs")
        return False
    chosen = context.selected_points
    if context.chosen_shapes and not chosen:
        context.session.say("No point is selected: select some, or delete the whole shape with Ctrl+Del")
    return delete_points_of(context, chosen)


def select_all_points(context: EditContext) -> bool:
    """Select all points of the selected shapes, or with their tool all landmarks."""
    if context.takes == "landmarks":
        return landmarks.select_all_landmarks(context)
    session, points = context.session, {s.name: frozenset(range(s.n_points)) for s in context.chosen_shapes}
    session.set_selection(session.selection.with_points(points))
    return bool(points)


def select_no_points(context: EditContext) -> bool:
    """Deselect the points; without any, the shapes. With their tool, the landmarks."""
    if context.takes == "landmarks":
        return landmarks.select_no_landmarks(context)
    session = context.session
    session.set_selection(session.selection.with_points({}) if session.selection.points else Selection())
    return True  # also true where nothing was selected, because the request is fulfilled


def select_next(context: EditContext, step: int) -> bool:
    """Select the next unlocked, visible shape in the document's order; with their tool, the next landmark."""
    if context.takes == "landmarks":
        return landmarks.select_next_landmark(context, step)
    document = context.session.document
    names = [shape.name for shape in document.shapes if context.can_grab(shape)] if document is not None else []
    if not names:
        return False
    own = context.session.selection.shape
    context.session.select(names[(names.index(own) + step) % len(names)] if own in names else names[0])
    return True


def feather(context: EditContext, by: float | None) -> bool:
    """Add some pixels of feather to the selected shapes; None removes their feather. Seams store it as a setting.

    Where points are selected, only their shapes change. The feather of a closed one grows at these points only.
    """
    chosen = context.selected_points
    shapes = [shape for shape in context.chosen_shapes if not chosen or shape.name in chosen]
    if not shapes or not context.is_free:
        return False
    state = context.session.state
    for shape in shapes:
        own = chosen.get(shape.name) if shape.closed else None
        state = _with_feather(state, shape, by) if own is None else _with_point_feather(context, state, shape, own, by)
    what = "feather points" if any(shape.closed for shape in shapes) and chosen else "feather"
    context.session.edits.push("no feather" if by is None else what, state)
    return True


def _with_feather(state: State, shape: RotoShape, by: float | None) -> State:
    """The state with more feather of a whole shape, or without any; a seam's is a setting that runs respect."""
    width = 0.0 if by is None else min(max(shape.feather_px + by, 0.0), MOST_WIDTH_PX)
    if shape.role == "seam":
        state = with_settings(state, shape.name, replace(state.seam(shape.name), feather_px=width))
    document = state.document
    assert document is not None
    document = set_feather(document, shape.name, width)
    if by is None and shape.closed and shape.has_feather_line:
        document = clear_feather(document, shape.name, ())
    return replace(state, document=document)


def _with_point_feather(
    context: EditContext, state: State, shape: RotoShape, chosen: frozenset[int], by: float | None
) -> State:
    document, frames = state.document, context.reached_frames(shape)
    assert document is not None
    if by is None:
        return replace(state, document=clear_feather(document, shape.name, frames, chosen))
    points = shape.at(context.session.frame)
    offsets = {index: outward_offset(points, index, by) for index in chosen}
    return replace(state, document=pull_feather(document, shape.name, frames, offsets))


# --- keys -------------------------------------------------------------------------------------------------------------


def copy_shapes(context: EditContext) -> bool:
    """Copy the selected shapes as they are at this frame; without a selection, all shapes."""
    document, frame, names = context.session.document, context.session.frame, context.session.selection.shapes
    shapes = [shape for shape in (document.shapes if document is not None else ()) if shape.keys]
    selected = [shape for shape in shapes if shape.name in names]
    context.copied = {shape.name: shape.at(frame) for shape in selected or shapes}
    context.session.say(f"Copied {_counted_word(len(context.copied), 'key')} of frame {frame}")
    return bool(context.copied)


def paste_shapes(context: EditContext, *, is_relative: bool) -> bool:
    """Paste the copied points as keys: at this frame, its hold and the keys that edits reach.

    One copied shape is pasted onto the one that is selected. Several go onto themselves, where they are selected or
    nothing is. `is_relative`: in their copied form, but where the shape is.
    """
    session, document = context.session, context.session.document
    if document is None or not context.copied:
        session.say("Nothing was copied yet")
        return False
    pasted = _pasted_by_shape(context, document)
    meant = [shape for shape in document.shapes if shape.name in pasted]
    shapes = [shape for shape in meant if context.can_grab(shape)]
    held = [*filter(None, (context.why_held(shape.name) for shape in meant))]
    copied = _names_in_words(context, context.copied)
    if not any(shape.name in context.copied for shape in document.shapes) and not meant:
        session.say(f"Nothing pasted: {copied} is not in this shot")
    elif not meant:
        session.say(f"Nothing pasted: select {copied}, or copy one shape to paste it onto one other")
    elif not shapes:
        session.say(f"Nothing pasted: {held[0]}")

    def paste(document: RotoDocument) -> RotoDocument:
        for shape in shapes:
            points, frames = pasted[shape.name], context.reached_frames(shape)
            document = edit_frames.paste_keys(document, shape.name, points, frames, is_relative=is_relative)
        return document

    done = bool(shapes) and context.put("paste key" if len(shapes) == 1 else "paste keys", paste)
    if done:
        own = _names_in_words(context, [shape.name for shape in shapes])
        what = own if pasted.keys() <= context.copied.keys() else f"{copied} onto {own}"
        session.say("; ".join([f"Pasted {what} at frame {session.frame}", *held[:1]]))
    return done


def _pasted_by_shape(context: EditContext, document: RotoDocument) -> dict[str, Points]:
    """The points to paste by the shape that gets them, whether it may be changed or not."""
    names = context.session.selection.shapes
    selected = [shape.name for shape in document.shapes if shape.name in names]
    if len(context.copied) == len(selected) == 1:
        return dict(zip(selected, context.copied.values()))
    return {name: points for name, points in context.copied.items() if name in selected or not selected}


def _names_in_words(context: EditContext, names: Collection[str]) -> str:
    """The shown names of some shapes for a message."""
    return list_names([context.session.names.of(name) for name in names])


def set_key_here(context: EditContext) -> bool:
    """Set a human key of the selected shape (all shapes where none is selected) at its present position."""
    if context.layer is not None:
        return layers.key_layer(context, context.layer)
    names = _chosen_names(context)
    frames = context.session.held_frames()
    return bool(names) and context.put("set key", lambda document: edit_frames.set_keys(document, names, frames))


def delete_key_here(context: EditContext) -> bool:
    """Delete the key at this frame (and those that edits reach) of the selected shape; without a selection, of all."""
    if context.layer is not None:
        return layers.unkey_layer(context, context.layer)
    names = _chosen_names(context)
    frames = set(context.session.held_frames())
    if context.reach is not None:
        frames |= set(range(context.reach.first, context.reach.last + 1))
    kept = [shape for shape in context.free_shapes if shape.name in names and edit_frames.loses_all_keys(shape, frames)]
    done = bool(names) and context.put("delete key", lambda document: edit_frames.delete_keys(document, names, frames))
    if done and len(names) > 1 and not kept:
        context.session.say(f"Deleted the keys of {len(names)} shapes at {summarise(sorted(frames))}")
    return done


def go_on(context: EditContext, kind: Interpolation) -> bool:
    """Set the interpolation from this frame's keys to the next: hold, ease, smooth or linear."""
    document, frame = context.session.document, context.session.frame
    first, last = (context.reach.first, context.reach.last) if context.reach is not None else (frame, frame)
    shapes = (
        [shape for shape in document.shapes if shape.name in _chosen_names(context)] if document is not None else []
    )
    keys = {shape.name: edit_frames.keyed_frames_in(shape, min(first, frame), max(last, frame)) for shape in shapes}
    if not any(keys.values()):
        context.session.say(f"No key at frame {frame}: set one first")
        return False

    def set_all(document: RotoDocument) -> RotoDocument:
        for name, frames in keys.items():
            document = edit_frames.set_interpolation(document, name, frames, kind)
        return document

    return context.put(f"{kind} keys", set_all)


def reach(context: EditContext, mode: Carry) -> bool:
    """Switch on that edits reach every key between In and Out (without them, of the shot); or switch it off."""
    if context.session.plate is None:
        return False
    context.mode = None if context.mode == mode else mode
    far = context.reach
    where = "off" if far is None else f"on: every key of {far.first}-{far.last}, {mode}"
    context.session.say(f"Multi-frame edit {where}")
    return True


def _chosen_names(context: EditContext) -> list[str]:
    document, chosen = context.session.document, context.chosen_shapes
    if chosen:
        return [shape.name for shape in chosen]
    if document is None or context.session.selection.shape is not None:
        return []
    return [shape.name for shape in document.shapes if shape.keys and context.can_grab(shape)]


def _counted_word(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


_WAYS = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "up": (0.0, -1.0), "down": (0.0, 1.0)}
_STEPS = {"": 1.0, "_fine": 0.1, "_far": 10.0}

EDIT_ACTIONS: Mapping[str, EditAction] = {
    **{
        f"nudge_{way}{step}": partial(nudge_points, dx=dx * px, dy=dy * px)
        for way, (dx, dy) in _WAYS.items()
        for step, px in _STEPS.items()
    },
    "smooth": smooth_points,
    "cusp": cusp_points,
    "join": join,
    "mirror": mirror_chosen,
    "delete": delete_chosen,
    "duplicate_shape": duplicate_shapes,
    "delete_shape": delete_shapes,
    "hold_out": hold_out,
    "group": layers.group_chosen,
    "ungroup": layers.ungroup_chosen,
    "begin_here": begin_here,
    "end_here": end_here,
    "hide_here": hide_here,
    "always_seen": show_always,
    "select_all": select_all_points,
    "select_none": select_no_points,
    "next_shape": partial(select_next, step=1),
    "previous_shape": partial(select_next, step=-1),
    "feather_more": partial(feather, by=FEATHER_STEP_PX),
    "feather_none": partial(feather, by=None),
    "copy_key": copy_shapes,
    "paste_key": partial(paste_shapes, is_relative=False),
    "paste_key_relative": partial(paste_shapes, is_relative=True),
    "set_key": set_key_here,
    "delete_key": delete_key_here,
    "hold": partial(go_on, kind="hold"),
    "linear": partial(go_on, kind="linear"),
    "ease": partial(go_on, kind="ease"),
    "run_smoothly": partial(go_on, kind="smooth"),
    "ripple": partial(reach, mode="relative"),
    "overwrite": partial(reach, mode="absolute"),
}


def carry_out(context: EditContext, name: str) -> bool:
    """Do an edit of the table; if it does nothing, show the reason."""
    messages: list[str] = []
    context.session.message_sent.append(messages.append)
    done = EDIT_ACTIONS[name](context)
    context.session.message_sent.remove(messages.append)
    if not done and not messages:
        context.session.say(context.why_not)
    return done
