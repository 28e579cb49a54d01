"""Reading shapes from Nuke scripts: every Roto and RotoPaint node as one document.

Standard library only. Layer transforms are applied, B-splines become Bezier shapes, eases stay eased. Everything that
the document cannot hold is reported. The nodes' trees are returned too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke_curves, nuke_layers, nuke_metadata, nuke_script, parsing
from rotopaint_ai.exchange.limits import bounded_width, check_range
from rotopaint_ai.exchange.nuke_attributes import (
    attribute,
    curve_of,
    holds_out,
    report_attributes,
    report_expressions,
)
from rotopaint_ai.exchange.nuke_keys import nuke_keys_of
from rotopaint_ai.exchange.nuke_motion import Motion
from rotopaint_ai.exchange.nuke_script import ScriptNode
from rotopaint_ai.exchange.nuke_size import NODE_KINDS as NODE_KINDS
from rotopaint_ai.exchange.nuke_size import NamedTree, Size, pixel_aspect, plate_sizes
from rotopaint_ai.exchange.nuke_tree import (
    OPEN,
    CurvesTree,
    NukeCubic,
    NukeCurve,
    NukeLayer,
    NukeShape,
    NukeStroke,
    unquote,
    values_of,
)
from rotopaint_ai.frames import MOST_FRAMES
from rotopaint_ai.shapes.edit_layers import place_in_layer
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import Key, RotoDocument, RotoShape


@dataclass(frozen=True, slots=True)
class NukeReading:
    """The content of a script: the document, its losses, and each node's tree as in the file."""

    document: RotoDocument
    losses: tuple[str, ...]
    trees: tuple[tuple[str, CurvesTree], ...]
    lifts: tuple[tuple[str, int], ...] = ()  # by node: height of the document's plate minus height of the node's plate


@dataclass(frozen=True, slots=True)
class _ShapeSoFar:
    """A shape before it enters the document: keys by frame; a shape without animation has one key, under None."""

    name: str
    shape: NukeShape
    layers: tuple[NukeLayer, ...]
    place: nuke_metadata.ElementPlace
    keys: dict[int | None, Key]
    feather_px: float
    width_px: float | None
    layer: Layer | None


def read_text(
    text: str,
    *,
    width: int | None = None,
    height: int | None = None,
    override: bool = False,
    node: str | None = None,
    where: str = "script",
) -> NukeReading:
    """Read every Roto and RotoPaint node of a script, or a bare `curves` value.

    `width` and `height` are the plate's, needed only where the script states none. If it states another size,
    DocumentError is raised, because a wrong height moves every shape; with `override` the given size is used anyway.
    Nodes of other sizes are each read at their own size. Closed shapes get the role `matte`; open shapes and shapes
    with "seam" in their name get `seam`. A shape without animation gets one key at the first frame. `node` selects one
    node by name. A shape that cannot be read is left out and reported.
    """
    is_bare = text.lstrip().startswith("{{")
    nodes = [] if is_bare else list(nuke_script.nodes(text, where=where))
    nodes = [each for each in nodes if each.kind not in NODE_KINDS or node in (None, each.name, each.full_name)]
    losses: list[str] = []
    trees: list[NamedTree] = _trees(nodes, where, losses)
    if is_bare:
        trees = [("Roto1", nuke_curves.parse_curves(text.strip()[1:-1], where=where), None)]
    if not trees and not any(each.kind in NODE_KINDS for each in nodes):
        raise _nothing_to_read(nodes, node, where)
    asked = None if width is None or height is None else (width, height)
    sizes = plate_sizes(nodes, trees, asked, override=override, where=where, losses=losses)
    nodes_found = [
        _node_shapes(name, tree, sizes.of_node[name][1], sizes.document, len(trees) > 1, where)
        for name, tree, _ in trees
    ]
    found = [each for node_found in nodes_found for each in node_found.shapes]
    failed = [error for node_found in nodes_found for error in node_found.failed]
    if failed and not found:
        raise failed[0]
    losses += [line for node_found in nodes_found for line in node_found.losses]
    first, last = nuke_metadata.stated_range(text) or _script_range(found, nodes, where)
    shapes = tuple(
        _build_shape(each, name, first, last) for each, name in zip(found, _unlike_names(found, losses), strict=True)
    )
    losses += [
        f"{shape.name}: is also subtracted from the shapes above it; Nuke subtracts it only from those below"
        for i, shape in enumerate(shapes)
        if shape.subtract and not all(above.subtract for above in shapes[:i])
    ]
    aspect = pixel_aspect(nodes)
    metadata = nuke_metadata.kept_nodes(nodes, trees, sizes, aspect, losses)
    document = RotoDocument(*sizes.document, first, last, shapes=shapes, pixel_aspect=aspect, metadata=metadata)
    lifts = ((name, sizes.document[1] - sizes.of_node[name][1]) for name, _, _ in trees)
    return NukeReading(document, tuple(losses), tuple((name, tree) for name, tree, _ in trees), tuple(lifts))


def _nothing_to_read(nodes: Sequence[ScriptNode], node: str | None, where: str) -> DocumentError:
    wanted = "" if node is None else f" called {node}"
    others = sorted({each.kind for each in nodes if each.kind.startswith("SplineWarp")})
    known = f" ({others[0]} is not read)" if others else ""
    return DocumentError(
        f"{where}: holds no Roto or RotoPaint node{wanted}{known}; export the node that carries the shapes"
    )


def _trees(nodes: Sequence[ScriptNode], where: str, losses: list[str]) -> list[NamedTree]:
    """Every roto node's tree under a unique name. Nodes of Nuke 6 are left out where others can be read."""
    trees: list[NamedTree] = []
    old: list[str] = []
    taken = parsing.TakenNames()
    for node in nodes:
        curves = node.text("curves")
        if node.kind.startswith("SplineWarp"):
            losses.append(f"{node.full_name}: {node.kind} nodes are not read; only Roto and RotoPaint are")
        if node.kind not in NODE_KINDS or not curves.strip():
            continue
        if nuke_curves.is_nuke6(curves):
            old.append(node.full_name)
            continue
        if node.text("disable") == "true":
            losses.append(f"{node.full_name}: is disabled in the script; its shapes were read anyway")
        name = parsing.free_name(node.full_name, taken)
        trees.append((name, nuke_curves.parse_curves(curves, where=f"{where}: {name}"), node))
    if old and not trees:
        raise DocumentError(f"{where}: {old[0]}: written by Nuke 6; open and save the script in Nuke 7 or later")
    losses += [f"{name}: written by Nuke 6, not read; open and save the script in Nuke 7 or later" for name in old]
    return trees


def _script_range(found: Sequence[_ShapeSoFar], nodes: Sequence[ScriptNode], where: str) -> tuple[int, int]:
    """First and last frame: of all keys and lifetimes, or of the script where it states a range around these; else
    frame 1."""
    elements: dict[int, NukeShape | NukeLayer] = {id(each.shape): each.shape for each in found}
    elements |= {id(layer): layer for each in found for layer in each.layers}
    keyed = [frame for each in found for frame in each.keys if frame is not None]
    stated = [frame for element in elements.values() for frame in _stated_frames(element)]
    # what lies farther away than a shot is long has no part in it
    far = [max(keyed) - MOST_FRAMES, min(keyed) + MOST_FRAMES] if keyed else [-math.inf, math.inf]
    frames = keyed + [frame for frame in stated if far[0] < frame < far[1]]
    for node in nodes:
        ends = [int(text) for text in (node.text("first_frame") or "1", node.text("last_frame")) if _is_whole(text)]
        if node.kind == "Root" and len(ends) == 2 and ends[0] <= ends[1] < ends[0] + MOST_FRAMES:
            frames = ends if all(ends[0] <= frame <= ends[1] for frame in frames) else frames
    first, last = (min(frames), max(frames)) if frames else (1, 1)
    check_range(first, last, where)
    return first, last


def _stated_frames(element: NukeShape | NukeLayer) -> Iterator[int]:
    """The frames at which an element changes: keys of its transform and switches, ends of its lifetime."""
    if times := Motion([element.transform]).times:
        yield from (math.floor(times[0]), math.ceil(times[-1]))
    for keys in [curve.keys for name, curve in element.attributes if curve.keys and name in ("vis", "opc")]:
        # a key that switches on ends what is hidden at the frame before it
        yield from (math.ceil(key.time) - (key.value > 0.0) for i, key in enumerate(keys) if i or key.value <= 0.0)
    yield from map(int, _lifetime_ends(element))


def _lifetime_ends(element: NukeShape | NukeLayer) -> tuple[float, ...]:
    """The frames that an element's type of lifetime uses (`_alive`); of one that lives always, those that it states."""
    first, last = (attribute(element, name, math.nan) for name in ("ltn", "ltm"))
    kind = attribute(element, "ltt", 0.0)
    used_alone = {1.0: (last,), 2.0: (first,), 3.0: (first,)}
    used = used_alone.get(kind, (first, last))
    is_empty = first > last if kind == 4.0 else kind not in used_alone and first >= last
    return () if not all(map(math.isfinite, used)) or is_empty else used


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,9}", text) is not None


# --- elements ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NodeShapes:
    """The content of a node: its shapes in plate space, their losses, and errors of shapes that could not be read."""

    shapes: list[_ShapeSoFar]
    losses: list[str]
    failed: list[DocumentError]


def _node_shapes(node: str, tree: CurvesTree, own_height: int, size: Size, several: bool, where: str) -> _NodeShapes:
    """Shapes of a node that was drawn for a plate of `own_height`; one that cannot be read is left out."""
    found = _NodeShapes([], [], [])
    strokes, known = 0, nuke_layers.LayersRead(own_height, found.losses)
    for layers, element, place in _walk_layers(tree.root, (), ()):
        path = "/".join(unquote(each.name) for each in (*layers[1:], element)).strip() or element.name
        name = f"{node}/{path}" if several else path
        if isinstance(element, NukeStroke):
            strokes += 1
            continue
        if not len(element.outline.points):
            found.losses.append(f"{name}: has no points and is left out")
            continue
        try:
            called = [name.rsplit("/", len(layers) - 1 - i)[0] for i in range(len(layers) - 1)]
            layer = _moving_layer(element, layers, called, known)
            found.shapes.append(
                _found_shape(
                    name,
                    element,
                    layers,
                    layer,
                    nuke_metadata.ElementPlace(node, place),
                    size[1],
                    size[1] - own_height,
                    f"{where}: {node}: {path}",
                    found.losses,
                )
            )
        except DocumentError as error:
            found.failed.append(error)
            found.losses.append(f"{name}: is left out ({error})")
    if strokes:
        found.losses.append(f"{node}: {strokes} paint strokes are {nuke_metadata.KEPT}")
    return found


def _walk_layers(
    layer: NukeLayer, above: tuple[NukeLayer, ...], place: tuple[int, ...]
) -> Iterator[tuple[tuple[NukeLayer, ...], NukeShape | NukeStroke, tuple[int, ...]]]:
    """Elements in file order, each with the layers around it and its index among the children of each layer."""
    for index, child in enumerate(layer.children):
        if isinstance(child, NukeLayer):
            yield from _walk_layers(child, (*above, layer), (*place, index))
        else:
            yield (*above, layer), child, (*place, index)


def _moving_layer(
    shape: NukeShape,
    layers: tuple[NukeLayer, ...],
    called: Sequence[str],
    known: nuke_layers.LayersRead,
) -> Layer | None:
    """Our layer that moves a shape; None where its own transform or the root's moves it too."""
    if not Motion([shape.transform, layers[0].transform]).is_identity:
        return None
    return known.find_layer(layers[1:], called)


def _found_shape(
    name: str,
    shape: NukeShape,
    layers: tuple[NukeLayer, ...],
    layer: Layer | None,
    place: nuke_metadata.ElementPlace,
    height: int,
    lift: int,
    where: str,
    losses: list[str],
) -> _ShapeSoFar:

    def report(text: str) -> None:
        losses.append(f"{name}: {text}")

    closed = not shape.outline.flags & OPEN
    curves = _point_curves(shape, shape.outline, where)
    report_expressions(shape, layers, report)
    around = () if layer is not None else (shape.transform, *(each.transform for each in reversed(layers)))
    moved = Motion(around)
    if moved.is_projective:
        report("perspective of a layer's matrix is applied to points and handles, not along the curve")
    keys = nuke_keys_of(curves, _feather_components(shape, where), moved, shape, height, report, lift=lift)
    report_attributes(shape, layers, report)
    width = None if closed or curve_of(shape, "osw") is None else attribute(shape, "osw", 0.0)
    return _ShapeSoFar(
        name,
        shape,
        layers,
        place,
        keys,
        bounded_width(_node_feather(shape, closed, report), "feather", report),
        None if width is None else bounded_width(width, "width", report),
        layer,
    )


def _feather_components(shape: NukeShape, where: str) -> list[tuple[NukeCurve, ...]] | None:
    """The components of a feather line, in the form of `_point_curves`; None without a feather line."""
    if shape.feather is None or shape.outline.flags & OPEN or attribute(shape, "fo", 1.0) == 0.0:
        return None
    if len(shape.feather.points) != len(shape.outline.points):
        raise DocumentError(
            f"{where}: {len(shape.feather.points)} entries of feather for {len(shape.outline.points)}; wanted as many"
        )
    found = _point_curves(shape, shape.feather, where)
    at = 0 if shape.kind == "bspline" else 2
    offsets = [curve for row in found for curve in row[at : at + 2]]
    return found if any(value for curve in offsets for value in values_of(curve)) else None


def _point_curves(shape: NukeShape, cubic: NukeCubic, where: str) -> list[tuple[NukeCurve, ...]]:
    """Six curves per control point: left tangent, point, right tangent (x, y each); two for a B-spline point."""
    zero = NukeCurve()
    pairs = [(*point.values[:2], *[zero] * (2 - len(point.values[:2]))) for point in cubic.points]
    if shape.kind == "catmullrom":
        raise DocumentError(f"{where}: a shape of type catmullrom; wanted bezier or bspline: convert it in Nuke")
    if shape.kind == "bspline":
        return [tuple(pair) for pair in pairs]
    if len(pairs) % 3:
        raise DocumentError(f"{where}: {len(pairs)} entries; wanted three for each control point")
    return [(*pairs[i], *pairs[i + 1], *pairs[i + 2]) for i in range(0, len(pairs), 3)]


def _node_feather(shape: NukeShape, closed: bool, report: Callable[[str], None]) -> float:
    """The uniform feather outside the edge, or outside the feather line where there is one, in pixels."""
    if attribute(shape, "fo", 1.0) == 0.0:
        return 0.0
    if not closed:
        return max(0.0, attribute(shape, "osf", 0.0))
    across, down = (attribute(shape, name, 0.0) for name in ("fx", "fy"))
    uniform = (across + down) / 2
    if across != down:
        report("feather differs in x and y; their mean counts")
    if uniform < 0.0:
        report("uniform feather inside the edge is not drawn; draw it as a feather line in Nuke")
    return max(0.0, uniform)


# --- finishing --------------------------------------------------------------------------------------------------------


def _unlike_names(found: Sequence[_ShapeSoFar], losses: list[str]) -> list[str]:
    """The shapes with unique names."""
    names: list[str] = []
    taken = parsing.TakenNames()
    for each in found:
        names.append(parsing.free_name(each.name, taken))
        if names[-1] != each.name:
            losses.append(f"{each.name}: the name occurs twice; the other shape is now called {names[-1]}")
    return names


def _build_shape(found: _ShapeSoFar, name: str, first: int, last: int) -> RotoShape:
    closed = not found.shape.outline.flags & OPEN
    is_seam = not closed or "seam" in found.name.lower()
    shape = RotoShape(
        name=name,
        closed=closed,
        role="seam" if is_seam else "matte",
        keys={first if frame is None else frame: key for frame, key in found.keys.items()},
        width_px=found.width_px,
        feather_px=found.feather_px,
        visible=_visible(found, first, last),
        subtract=holds_out(found.shape),
        metadata=found.place.as_metadata(),
    )
    return shape if found.layer is None else place_in_layer(shape, found.layer)


def _visible(found: _ShapeSoFar, first: int, last: int) -> dict[int, bool]:
    """Frames at which the shape or a layer above it is switched off, fully transparent or outside its lifetime."""
    elements: tuple[NukeShape | NukeLayer, ...] = (found.shape, *found.layers)
    switches = [
        curve for element in elements for name in ("vis", "opc") if (curve := curve_of(element, name)) is not None
    ]
    switches = [curve for curve in switches if any(value <= 0.0 for value in values_of(curve))]
    lives = [(attribute(e, "ltt", 0.0), attribute(e, "ltn", 1.0), attribute(e, "ltm", 1.0)) for e in elements]
    lives = [life for life in lives if life[0]]
    if not switches and not lives:
        return {}
    return {
        frame: False
        for frame in range(first, last + 1)
        if any(curve.at(frame) <= 0.0 for curve in switches) or not all(_alive(frame, *life) for life in lives)
    }


def _alive(frame: int, kind: float, start: float, end: float) -> bool:
    """Lifetime types: 1 from the start of time to a frame, 2 one frame, 3 from a frame on, 4 a range; else always."""
    if kind == 1.0:
        return frame <= end
    if kind == 2.0:
        return frame == start
    if kind == 3.0:
        return frame >= start
    return start <= frame <= end if kind == 4.0 else True
