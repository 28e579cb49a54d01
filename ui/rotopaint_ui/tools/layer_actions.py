"""Groups: put shapes together, take them apart, and key a group's transform. Each is one undo step."""

from __future__ import annotations

import math
from collections.abc import Collection

from rotopaint_ai.shapes import edit_layers
from rotopaint_ai.shapes.layers import (
    IDENTITY,
    LEAST_SCALE,
    Layer,
    LayerPose,
    Matrix,
    linear_part,
    place_point,
    way_back,
)
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.tools.edit_context import EditContext

LEAST_FACTOR = 0.01  # least factor by which a drag scales a group
Place = tuple[float, float]


def group_chosen(context: EditContext) -> bool:
    """Put the selected shapes into a new group, and select it."""
    shapes, document = context.chosen_shapes, context.session.document
    if not shapes or document is None:
        return False
    name = free_layer_name(document)
    names = [shape.name for shape in shapes]
    done = context.put("group", lambda before: edit_layers.group(before, names, name))
    if done:
        context.session.select_layer(name)
        context.session.say(
            f"{name}: {len(names)} shape{'' if len(names) == 1 else 's'}; T moves, turns and scales it, from key to key"
        )
    return done


def free_layer_name(document: RotoDocument) -> str:
    """The first `group_N` that no layer has."""
    taken = {layer.name for layer in document.layers}
    return next(name for k in range(1, len(taken) + 2) if (name := f"group_{k}") not in taken)


def ungroup_chosen(context: EditContext) -> bool:
    """Ungroup the selected group, or that of the selected shape; its shapes keep their places on the plate."""
    shape = context.session.shape
    layer = context.layer or (None if shape is None else shape.layer)
    if layer is None:
        if shape is not None:
            context.session.say(f"{context.session.names.of(shape.name)} is in no group")
        return False
    return context.put("ungroup", lambda document: edit_layers.ungroup(document, layer.name))


def put_into_layer(context: EditContext, names: Collection[str], layer: str | None) -> bool:
    """Move shapes into a group, or out of every group."""

    def change(document: RotoDocument) -> RotoDocument:
        goal = None if layer is None else edit_layers.layer_of(document, layer)
        return edit_layers.put_into(document, names, goal)

    return bool(names) and context.put("into group" if layer else "out of group", change)


def key_layer(context: EditContext, layer: Layer) -> bool:
    """Set a key of the group's transform at this frame."""
    frames, frame = context.session.held_frames(), context.session.frame

    def set_key(document: RotoDocument) -> RotoDocument:
        pose = _pose_at(layer, frame, edit_layers.middle_of(document, layer.name, frame))
        return edit_layers.set_pose(document, layer.name, frames, pose)

    return context.put("set group key", set_key)


def unkey_layer(context: EditContext, layer: Layer) -> bool:
    """Delete the key of the group's transform here."""
    frames = context.session.held_frames()
    return context.put("delete group key", lambda document: edit_layers.delete_poses(document, layer.name, frames))


def preview_pose(context: EditContext, layer: Layer, pose: LayerPose) -> None:
    """Inside a gesture: show the group with another transform here, relative to the start of the gesture."""
    frames = context.session.held_frames()
    context.preview_document(lambda document: edit_layers.set_pose(document, layer.name, frames, pose))


def pivot_of(layer: Layer, frame: int) -> Place | None:
    """A group's pivot on the plate; None before anybody has moved it, and where the group follows a track."""
    if not layer.poses or layer.track:
        return None
    pose = layer.pose_at(frame)
    return place_point(_parent_matrix(layer, frame), pose.pivot_x + pose.x, pose.pivot_y + pose.y)


def pivot_within(layer: Layer, frame: int, place: Place) -> Place:
    """A point of the plate in the coordinates of the group's pivot."""
    return place_point(
        way_back(layer.pose_at(frame).matrix), *place_point(way_back(_parent_matrix(layer, frame)), *place)
    )


def shifted_pose(layer: Layer, frame: int, pivot: Place, dx: float, dy: float) -> LayerPose:
    """The group's transform at a frame, moved by plate pixels; a first key takes `pivot`, which moves along."""
    pose = _pose_at(layer, frame, pivot)
    x, y = place_point(linear_part(way_back(_parent_matrix(layer, frame))), dx, dy)
    return pose._replace(x=pose.x + x, y=pose.y + y)


def turned_pose(layer: Layer, frame: int, pivot: Place, degrees: float = 0.0, factors: Place = (1.0, 1.0)) -> LayerPose:
    """The group's transform at a frame, rotated and scaled along its own axes about a fixed point of the plate."""
    pose = _pose_at(layer, frame, pivot)
    fixed = pivot_within(layer, frame, pivot)
    x, y = (factor if abs(factor) >= LEAST_FACTOR else LEAST_FACTOR for factor in factors)
    scale_x, scale_y = (
        math.copysign(max(abs(scale), LEAST_SCALE), scale) for scale in (pose.scale_x * x, pose.scale_y * y)
    )
    new = pose._replace(degrees=pose.degrees + degrees, scale_x=scale_x, scale_y=scale_y)
    (x0, y0), (x1, y1) = place_point(pose.matrix, *fixed), place_point(new.matrix, *fixed)
    return new._replace(x=new.x + x0 - x1, y=new.y + y0 - y1)


def _pose_at(layer: Layer, frame: int, pivot: Place) -> LayerPose:
    """The group's transform at a frame; without keys, one with its pivot at a point of the plate."""
    if layer.poses:
        return layer.pose_at(frame)
    x, y = pivot_within(layer, frame, pivot)
    return LayerPose(pivot_x=x, pivot_y=y)


def _parent_matrix(layer: Layer, frame: int) -> Matrix:
    """The matrix from a group's own transform to the plate."""
    return IDENTITY if layer.parent is None else layer.parent.matrix_at(frame)
