"""A document written back into the nodes that it came from; everything that was not edited is kept from the script.

Standard library only. A layer gets the current motion of its group. An edited shape gets its new curves within its
layers; the inverse of the layers' transforms is applied to them. The shape keeps the attributes that a document cannot
hold. A new shape is added at the root of a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rotopaint_ai.exchange import nuke_metadata, nuke_reader, nuke_text, nuke_writer
from rotopaint_ai.exchange.nuke_attributes import MINUS, attribute
from rotopaint_ai.exchange.nuke_curves import is_nuke6
from rotopaint_ai.exchange.nuke_layers import nuke_transform_of
from rotopaint_ai.exchange.nuke_metadata import ElementPlace, KeptNode
from rotopaint_ai.exchange.nuke_motion import Motion, apply_motion
from rotopaint_ai.exchange.nuke_script import nodes, with_knob
from rotopaint_ai.exchange.nuke_tree import (
    Attributes,
    CurvePoint,
    CurvesTree,
    NukeCubic,
    NukeCurve,
    NukeLayer,
    NukeShape,
    NukeStroke,
    NukeTransform,
)
from rotopaint_ai.shapes.bake import bake_layer
from rotopaint_ai.shapes.edit_layers import to_layer_space
from rotopaint_ai.shapes.layers import Layer, Matrix, way_back
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, Slopes

Element = NukeLayer | NukeShape | NukeStroke
_ALIKE_PX = 1e-4  # allowed difference of a single number in a script
HEAD = "set cut_paste_input [stack 0]\nversion 13.2 v8\n"


@dataclass(frozen=True, slots=True)
class RebuiltScript:
    """A script's text, the document's shapes in the order in which the script is read, and the losses."""

    text: str
    order: tuple[str, ...]
    losses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Original:
    """The original script, read again, and the shapes of the document that are still in it.

    `moved`: its trees with the motion of the document's groups in their layers. `groups`: those groups by layer name.
    """

    document: RotoDocument
    trees: Mapping[str, CurvesTree]
    lifts: Mapping[str, int]  # height of the document's plate minus height of the node's plate
    shapes: Mapping[ElementPlace, RotoShape]
    placed: Mapping[str, ElementPlace]  # by the name of the document's shape
    moved: Mapping[str, CurvesTree] = field(default_factory=dict)
    groups: Mapping[str, Layer] = field(default_factory=dict)


def rebuild_script(document: RotoDocument) -> RebuiltScript | None:
    """The document written into its stored nodes; None where it has none.

    Raises DocumentError where the nodes are damaged, or made for another plate.
    """
    kept = nuke_metadata.nodes_in(document.metadata)
    if not kept:
        return None
    document = nuke_writer.hold_outs_first(document)
    original = _with_moved_groups(_original(kept, document), document)
    losses: list[str] = []
    trees = _edited_trees(original, document, losses)
    text = "".join(_texts(kept, trees, original))
    frames = nuke_metadata.range_line(document.first_frame, document.last_frame)
    return RebuiltScript(
        HEAD + frames + text, tuple(shape.name for shape in document.shapes if shape.keys), tuple(losses)
    )


def _original(kept: Sequence[KeptNode], document: RotoDocument) -> _Original:
    text = "".join(node.text for node in kept)
    reading = nuke_reader.read_text(text, width=document.width, height=document.height, where="metadata")
    shapes = {place: shape for shape in reading.document.shapes if (place := nuke_metadata.script_place(shape))}
    placed: dict[str, ElementPlace] = {}
    for shape in document.shapes:
        place = nuke_metadata.script_place(shape)
        if place in shapes and place not in placed.values() and shape.keys:
            placed[shape.name] = place
    return _Original(reading.document, dict(reading.trees), dict(reading.lifts), shapes, placed)


# --- groups -----------------------------------------------------------------------------------------------------------


def _with_moved_groups(original: _Original, document: RotoDocument) -> _Original:
    """The script with the groups' motion in its layers, where a Nuke layer can hold it."""
    trees, groups = dict(original.trees), dict[str, Layer]()
    now = {layer.name: layer for layer in document.layers}
    for was, places in _layers_with_places(original):
        new = now.get(was.name)
        if new is None or len(places) > 1 or not _is_held(was, new, groups):
            continue
        groups[was.name] = new
        if new != was:
            ((node, at),) = places
            transform = nuke_transform_of(new, document.height - original.lifts[node], of_track=bool(new.track))
            trees[node] = replace(trees[node], root=_replace_transform(trees[node].root, at, transform))
    return replace(original, moved=trees, groups=groups)


def _layers_with_places(original: _Original) -> list[tuple[Layer, set[tuple[str, tuple[int, ...]]]]]:
    """Every layer of the script, outer layers first, and the places of Nuke layers with its name.

    Layers that need several Nuke layers (for example one with a track and keys) are left out.
    """
    found: dict[str, tuple[Layer, set[tuple[str, tuple[int, ...]]]]] = {}
    for place, shape in original.shapes.items():
        above = list(_layers_of(original.trees[place.node], place.at))[1:-1]
        layers = [(depth, each) for depth, each in enumerate(above, 1) if isinstance(each, NukeLayer)]
        depths = [depth for depth, each in layers if not Motion([each.transform]).is_identity]
        chain = () if shape.layer is None else shape.layer.chain
        for depth, layer in zip(depths, chain) if len(depths) == len(chain) else ():
            found.setdefault(layer.name, (layer, set()))[1].add((place.node, place.at[:depth]))
    return sorted(found.values(), key=lambda row: len(row[0].chain))


def _is_held(was: Layer, new: Layer, groups: Mapping[str, Layer]) -> bool:
    """Whether a Nuke layer in place of `was` can hold a group's motion: the same parents, and only keys or a track."""
    if bool(new.poses) == bool(new.track) or bool(was.track) != bool(new.track):
        return new == was
    return new.parent == (None if was.parent is None else groups.get(was.parent.name))


def _replace_transform(layer: NukeLayer, at: Sequence[int], transform: NukeTransform) -> NukeLayer:
    if not at:
        return replace(layer, transform=transform)
    children = list(layer.children)
    child = children[at[0]]
    assert isinstance(child, NukeLayer)
    children[at[0]] = _replace_transform(child, at[1:], transform)
    return replace(layer, children=tuple(children))


# --- trees ------------------------------------------------------------------------------------------------------------


def _edited_trees(original: _Original, document: RotoDocument, losses: list[str]) -> dict[str, CurvesTree]:
    """Every node's tree with the document's shapes; an unchanged node keeps the same tree object."""
    edits: dict[ElementPlace, NukeShape | None] = dict.fromkeys(original.shapes)
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[RotoShape, ElementPlace]]] = {}
    for shape in document.shapes:
        if shape.name in original.placed:
            place = original.placed[shape.name]
            groups.setdefault((place.node, place.at[:-1]), []).append((shape, place))
    for rows in groups.values():
        slots = sorted((place for _, place in rows), key=lambda place: place.at)
        for slot, (shape, place) in zip(slots, rows, strict=True):
            edits[slot] = _element(shape, place, original, document, losses)
    new = _new_elements(original, document)
    trees = {}
    for name, tree in original.moved.items():
        own = {place.at: element for place, element in edits.items() if place.node == name}
        root = _edited_layer(tree.root, (), own, {at: rows for (node, at), rows in new.items() if node == name})
        trees[name] = tree if root is tree.root else replace(tree, root=root)
    return trees


def _edited_layer(
    layer: NukeLayer,
    at: tuple[int, ...],
    edits: Mapping[tuple[int, ...], NukeShape | None],
    new: Mapping[int, Sequence[Element]],
) -> NukeLayer:
    children: list[Element] = []
    for index, child in enumerate(layer.children):
        children += new.get(index, ())
        place = (*at, index)
        if isinstance(child, NukeLayer):
            children.append(_edited_layer(child, place, edits, {}))
        elif place not in edits:
            children.append(child)
        elif (element := edits[place]) is not None:
            children.append(element)
    children += new.get(len(layer.children), ())
    is_same = len(children) == len(layer.children) and all(a is b for a, b in zip(children, layer.children))
    return layer if is_same else replace(layer, children=tuple(children))


def _new_elements(original: _Original, document: RotoDocument) -> dict[tuple[str, int], list[Element]]:
    """New shapes by node and index at its root: each goes before the document's next shape that is in the node."""
    name, tree = list(original.trees.items())[-1] if original.trees else ("", None)
    if tree is None:
        return {}
    spot = (name, len(tree.root.children))
    found: dict[tuple[str, int], list[RotoShape]] = {}
    for shape in reversed(document.shapes):
        place = original.placed.get(shape.name)
        if place is not None:
            spot = (place.node, place.at[0])
        elif shape.keys:
            found.setdefault(spot, []).insert(0, shape)
    return {spot: _root_elements(shapes, spot[0], original, document) for spot, shapes in found.items()}


def _root_elements(
    shapes: Sequence[RotoShape], node: str, original: _Original, document: RotoDocument
) -> list[Element]:
    root, height = original.trees[node].root, document.height - original.lifts[node]
    motion = Motion([root.transform])
    moved = [shape if motion.is_identity else _within(shape, motion, height, document) for shape in shapes]
    return list(nuke_writer.build_layers(replace(document, height=height, shapes=tuple(moved))).tree.root.children)


def _layers_of(tree: CurvesTree, at: Sequence[int]) -> Iterator[Element]:
    """The root and the element at each step of a place, the last being the shape itself."""
    element: Element = tree.root
    yield element
    for index in at:
        assert isinstance(element, NukeLayer)
        element = element.children[index]
        yield element


# --- elements ---------------------------------------------------------------------------------------------------------


def _element(
    shape: RotoShape, place: ElementPlace, original: _Original, document: RotoDocument, losses: list[str]
) -> NukeShape:
    """The shape's element: unchanged, renamed, or with new curves and attributes."""
    before = original.shapes[place]
    *above, old = _layers_of(original.moved[place.node], place.at)
    assert isinstance(old, NukeShape)
    group = None if before.layer is None else original.groups.get(before.layer.name)
    shape = _as_scripted(shape, before) if shape.layer == group != before.layer else shape
    if shape.subtract != before.subtract:
        rest = _without(old.attributes, ("bm",))
        old = replace(old, attributes=(("bm", NukeCurve(MINUS)), *rest) if shape.subtract else rest)
    if shape.name != before.name:
        old = replace(old, name=nuke_writer.nuke_name(shape.name.split("/")[-1]))
    if not _is_as_before(shape, before):
        motion = Motion([old.transform, *(layer.transform for layer in reversed(above))])
        height = document.height - original.lifts[place.node]
        stays = shape.layer is not None and shape.layer == group
        within = to_layer_space(shape) if stays else _within(shape, motion, height, document)
        if not stays and len(within.keys) != len(shape.keys):
            losses.append(f"{shape.name}: was edited in a moving layer, so it has a key at every frame there")
        new = nuke_writer.shape_element(within, replace(document, height=height), old.name)
        old = _with_curves(old, new, shape, before)
    shown = _frames_of_both(document, original.document)
    if [shape.is_visible(frame) for frame in shown] != [before.is_visible(frame) for frame in shown]:
        visible = nuke_writer.visibility(shape, document)
        rest = _without(old.attributes, ("vis", "ltt"))
        old = replace(old, attributes=rest if visible is None else (("vis", visible), *rest))
    return old


def _as_scripted(shape: RotoShape, before: RotoShape) -> RotoShape:
    """The shape with the keys and the layer of the script, where only its group was moved; else the shape itself."""
    a, b = to_layer_space(shape), to_layer_space(before)
    facts = [(each.closed, each.width_px, each.feather_px, each.frames) for each in (a, b)]
    if facts[0] != facts[1] or not all(_are_equal_keys(a.keys[frame], b.keys[frame]) for frame in a.frames):
        return shape
    return replace(shape, keys=before.keys, layer=before.layer)


def _are_equal_keys(a: Key, b: Key) -> bool:
    kinds = [(key.interpolation, len(key.points), len(key.feather), key.slopes is None) for key in (a, b)]
    rows = zip((*a.points, *a.feather), (*b.points, *b.feather))
    return kinds[0] == kinds[1] and all(abs(x - y) < _ALIKE_PX for p, q in rows for x, y in zip(p, q))


def _frames_of_both(a: RotoDocument, b: RotoDocument) -> range:
    """Frames of both documents."""
    return range(max(a.first_frame, b.first_frame), min(a.last_frame, b.last_frame) + 1)


def _is_as_before(shape: RotoShape, before: RotoShape) -> bool:
    """Whether a node draws the shape as before; the source of keys and the frame of a single key are ignored."""
    facts = [(each.closed, each.width_px, each.feather_px, each.layer) for each in (shape, before)]
    keys = [_bare_keys(each) for each in (shape, before)]
    return facts[0] == facts[1] and (keys[0] == keys[1] or _is_pose(*keys))


def _bare_keys(shape: RotoShape) -> dict[int, Key]:
    return {frame: replace(key, source="human", widths=()) for frame, key in shape.keys.items()}


def _is_pose(a: Mapping[int, Key], b: Mapping[int, Key]) -> bool:
    """Whether each has only one key, and both poses are equal."""
    poses = [[(key.points, key.feather) for key in each.values()] for each in (a, b)]
    return len(a) == len(b) == 1 and poses[0] == poses[1]


def _with_curves(old: NukeShape, new: NukeShape, shape: RotoShape, before: RotoShape) -> NukeShape:
    """An element with the curves of another element; its own transform and attributes stay."""
    outline = _with_point_attributes(new.outline, old.outline)
    has_line = shape.has_feather_line or before.has_feather_line
    keeps_feather = not has_line and len(old.outline.points) == len(new.outline.points) and shape.closed
    changed: list[str] = []
    if shape.feather_px != before.feather_px or (has_line and attribute(old, "fo", 1.0) == 0.0):
        changed += ["fo", "fx", "fy"] if shape.closed else ["fo", "osf"]
    if shape.width_px != before.width_px and not shape.closed:
        changed.append("osw")
    attributes = _without(old.attributes, changed)
    attributes += tuple(each for each in new.attributes if each[0] in changed)
    return NukeShape(
        old.name,
        old.flags if shape.closed == before.closed else new.flags,
        new.kind,
        outline,
        old.feather if keeps_feather and old.kind == new.kind else new.feather,
        old.transform,
        attributes,
    )


def _with_point_attributes(new: NukeCubic, old: NukeCubic) -> NukeCubic:
    """A curve with the point attributes of another curve that has equally many points."""
    if len(new.points) != len(old.points) or not any(point.attributes for point in old.points):
        return new
    points = (CurvePoint(a.values, b.attributes) for a, b in zip(new.points, old.points, strict=True))
    return replace(new, points=tuple(points))


def _without(attributes: Attributes, names: Sequence[str]) -> Attributes:
    return tuple(each for each in attributes if each[0] not in names)


# --- transforms taken off ---------------------------------------------------------------------------------------------


def _within(shape: RotoShape, motion: Motion, height: int, document: RotoDocument) -> RotoShape:
    """The shape in the space of its layers, so that they put it back in place; keyed at every frame where they move."""
    if shape.layer is not None:
        shape = bake_layer(shape, document.first_frame, document.last_frame)
    if motion.is_identity or not shape.keys:
        return shape
    if not motion.is_animated and not motion.is_projective:
        back = way_back(motion.at(shape.frames[0]))
        return shape.with_keys({frame: _key_within(key, back, height) for frame, key in shape.keys.items()})
    first = min(document.first_frame, shape.frames[0])
    keys = {}
    for frame in range(first, max(document.last_frame, shape.frames[-1]) + 1):
        key = Key(shape.at(frame), "human", feather=shape.feather_at(frame))
        keys[frame] = _key_within(key, way_back(motion.at(frame)), height)
    return shape.with_keys(keys)


def _key_within(key: Key, back: Matrix, height: int) -> Key:
    slopes = key.slopes
    if slopes is not None:
        linear = (back[0], back[1], 0.0, back[3], back[4], 0.0, 0.0, 0.0, 1.0)
        rows = [slopes.leaving, slopes.arriving, slopes.feather_leaving, slopes.feather_arriving]
        slopes = Slopes(*(_rows_within(each, (), linear, 0)[0] for each in rows))
    points, feather = _rows_within(key.points, key.feather, back, height)
    return replace(key, points=points, feather=feather, slopes=slopes)


def _rows_within(points: Points, feather: Points, back: Matrix, height: int) -> tuple[Points, Points]:
    """Control points and feather rows under a matrix of Nuke's space, in which y runs up from `height`."""

    def placed(x: float, y: float) -> tuple[float, float]:
        found = apply_motion(back, x, height - y)
        return found[0], height - found[1]

    def moved(x: float, y: float, row: ControlPoint) -> ControlPoint:
        at = placed(x, y)
        handles = [placed(x + dx, y + dy) for dx, dy in (row[2:4], row[4:6])]
        return ControlPoint(*at, *(v - at[i % 2] for i, v in enumerate(v for pair in handles for v in pair)))

    made = tuple(moved(point.x, point.y, point) for point in points)
    ends = [moved(p.x + f.x, p.y + f.y, f) for p, f in zip(points, feather)]
    return made, tuple(end._replace(x=end.x - p.x, y=end.y - p.y) for p, end in zip(made, ends))


# --- text -------------------------------------------------------------------------------------------------------------


def _texts(kept: Sequence[KeptNode], trees: Mapping[str, CurvesTree], original: _Original) -> Iterator[str]:
    """The text of every node, word for word where its tree is unchanged."""
    names = iter(original.trees)
    for node in kept:
        curves = next(nodes(f"Roto {{{node.body}}}")).text("curves")
        name = None if is_nuke6(curves) or not curves.strip() else next(names, None)
        if name is not None and trees[name] is not original.trees[name]:
            node = replace(node, body=with_knob(node.body, "curves", f"{{{nuke_text.serialise(trees[name])}}}"))
        yield node.text
