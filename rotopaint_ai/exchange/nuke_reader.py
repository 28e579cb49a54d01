"""Shapes out of Nuke scripts: every Roto and RotoPaint node as one document.

Standard library only. Layer transforms are applied, B-splines become Bezier shapes, eased moves become linear keys that
stay within 0.1 px of them. Whatever the document cannot hold is listed, never dropped in silence; the trees are kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke_curves, nuke_script, parsing
from rotopaint_ai.exchange.limits import check_range, check_size
from rotopaint_ai.exchange.nuke_keys import keys_of
from rotopaint_ai.exchange.nuke_motion import Motion
from rotopaint_ai.exchange.nuke_tree import (
    CYCLE,
    OPEN,
    CurvesTree,
    NukeCurve,
    NukeLayer,
    NukeShape,
    NukeStroke,
    Views,
    plain,
    values_of,
)
from rotopaint_ai.shapes.roto import Key, RotoDocument, RotoShape

NODE_KINDS = ("Roto", "RotoPaint")
_FORMAT = re.compile(r"\s*(\d+)\s+(\d+)\b")


@dataclass(frozen=True, slots=True)
class NukeReading:
    """What a script held: the document, what it could not hold, and each node's tree as it stands in the file."""

    document: RotoDocument
    losses: tuple[str, ...]
    trees: tuple[tuple[str, CurvesTree], ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A shape on its way into the document: keys by frame, None for a shape without animation."""

    name: str
    shape: NukeShape
    layers: tuple[NukeLayer, ...]
    keys: dict[int | None, Key]
    feather_px: float
    width_px: float | None


def read_text(
    text: str,
    *,
    width: int | None = None,
    height: int | None = None,
    node: str | None = None,
    where: str = "script",
) -> NukeReading:
    """Read every Roto and RotoPaint node of a script, or a bare `curves` value.

    `width` and `height` are the plate's, wanted only where the script does not tell; where it tells otherwise,
    DocumentError is raised, because a wrong height moves every shape. Closed shapes get role `matte`, open ones and
    those with "seam" in their name `seam`. A shape without animation gets one key at the first frame. `node` picks one
    node by name.
    """
    nodes = list(nuke_script.nodes(text, where=where)) if not text.lstrip().startswith("{{") else []
    nodes = [each for each in nodes if each.kind not in NODE_KINDS or node in (None, each.name, each.full_name)]
    losses: list[str] = []
    trees = _trees(nodes, where, losses)
    if text.lstrip().startswith("{{"):
        trees = [("Roto1", nuke_curves.parse(text.strip()[1:-1], where=where))]
    if not trees and not any(each.kind in NODE_KINDS for each in nodes):
        wanted = "" if node is None else f" called {node}"
        others = sorted({each.kind for each in nodes if each.kind.startswith("SplineWarp")})
        known = f" ({others[0]} is not read)" if others else ""
        raise DocumentError(
            f"{where}: holds no Roto or RotoPaint node{wanted}{known}; export the node that carries the shapes"
        )
    size = _size(nodes, trees, width, height, where, losses)
    found = [each for name, tree in trees for each in _shapes(name, tree, size[1], len(trees) > 1, where, losses)]
    first, last = _range(found, nodes, where)
    shapes = tuple(_finish(each, name, first, last) for each, name in zip(found, _names(found, losses), strict=True))
    document = RotoDocument(size[0], size[1], first, last, shapes=shapes, pixel_aspect=_aspect(nodes))
    return NukeReading(document, tuple(losses), tuple(trees))


def _trees(nodes: Sequence[nuke_script.ScriptNode], where: str, losses: list[str]) -> list[tuple[str, CurvesTree]]:
    """Every roto node's tree under a name of its own. Nodes of Nuke 6 are left out where others can be read."""
    trees: list[tuple[str, CurvesTree]] = []
    old: list[str] = []
    taken: set[str] = set()
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
            losses.append(f"{node.full_name}: is disabled in the script; its shapes were read all the same")
        name = parsing.free_name(node.full_name, taken)
        trees.append((name, nuke_curves.parse(curves, where=f"{where}: {name}")))
    if old and not trees:
        raise DocumentError(f"{where}: {old[0]}: written by Nuke 6; open and save the script in Nuke 7 or later")
    losses += [f"{name}: written by Nuke 6, not read; open and save the script in Nuke 7 or later" for name in old]
    return trees


# --- format and frames ------------------------------------------------------------------------------------------------


def _size(
    nodes: Sequence[nuke_script.ScriptNode],
    trees: Sequence[tuple[str, CurvesTree]],
    width: int | None,
    height: int | None,
    where: str,
    losses: list[str],
) -> tuple[int, int]:
    """Width and height of the plate: a node's own format, else the root layer's pivot, else the script's format."""
    own = {name: _pivot_size(tree) for name, tree in trees}
    for node in nodes:
        if node.kind in NODE_KINDS and node.full_name in own:
            own[node.full_name] = [*_format(node), *own[node.full_name]]
    stated_sizes = [size for sizes in own.values() for size in sizes]
    stated_sizes += [size for node in nodes if node.kind == "Root" for size in _format(node)]
    check_size(width, height, where)
    if width is not None and height is not None:
        if stated_sizes and (width, height) not in stated_sizes:
            stated = f"{stated_sizes[0][0]} x {stated_sizes[0][1]}"
            raise DocumentError(f"{where}: made for {stated}, asked for {width} x {height}; leave the size out")
        stated_sizes = [(width, height)]
    if not stated_sizes:
        raise DocumentError(f"{where}: does not say the size of its plate; give --width and --height")
    size = stated_sizes[0]
    check_size(*size, where)
    others = [f"{name} ({sizes[0][0]} x {sizes[0][1]})" for name, sizes in own.items() if sizes and size not in sizes]
    if others:
        losses.append(
            f"size {size[0]} x {size[1]} taken for every shape; of another size, read alone: {', '.join(others)}"
        )
    return size


def _pivot_size(tree: CurvesTree) -> list[tuple[int, int]]:
    """The size of which the root layer's pivot is the middle, where it is one."""
    pivot = [curve.at(0) for curve in tree.root.transform.values[:2]]
    if len(pivot) == 2 and min(pivot) > 0 and all((2 * value).is_integer() for value in pivot):
        return [(int(2 * pivot[0]), int(2 * pivot[1]))]
    return []


def _format(node: nuke_script.ScriptNode) -> list[tuple[int, int]]:
    match = _FORMAT.match(node.text("format"))
    return [(int(match[1]), int(match[2]))] if match and int(match[1]) and int(match[2]) else []


def _aspect(nodes: Sequence[nuke_script.ScriptNode]) -> float:
    """Pixel aspect of the script's format, 1 where it states none."""
    for node in nodes:
        words = node.text("format").split()
        if (node.kind in NODE_KINDS or node.kind == "Root") and len(words) >= 7:
            try:
                aspect = float(words[6])
            except ValueError:
                continue
            if math.isfinite(aspect) and aspect > 0:
                return aspect
    return 1.0


def _range(found: Sequence[_Found], nodes: Sequence[nuke_script.ScriptNode], where: str) -> tuple[int, int]:
    """First and last frame: of keys and lifetimes; without any, of the script; without that, frame 1."""
    frames = [frame for each in found for frame in each.keys if frame is not None]
    for each in found:
        life = [_attribute(each.shape, name, math.nan) for name in ("ltn", "ltm")]
        if all(map(math.isfinite, life)) and (life[0] < life[1] or _attribute(each.shape, "ltt", 0.0)):
            frames += [int(value) for value in life]
    if not frames:
        for node in nodes:
            if node.kind == "Root":
                frames += [int(node.text(knob)) for knob in ("first_frame", "last_frame") if _is_whole(node.text(knob))]
    first, last = (min(frames), max(frames)) if frames else (1, 1)
    check_range(first, last, where)
    return first, last


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,9}", text) is not None


# --- elements ---------------------------------------------------------------------------------------------------------


def _shapes(node: str, tree: CurvesTree, height: int, several: bool, where: str, losses: list[str]) -> Iterator[_Found]:
    strokes = 0
    for layers, element in _walk(tree.root, ()):
        path = "/".join(plain(each.name) for each in (*layers[1:], element)).strip() or element.name
        name = f"{node}/{path}" if several else path
        if isinstance(element, NukeStroke):
            strokes += 1
        else:
            yield _found(name, element, layers, height, f"{where}: {node}: {path}", losses)
    if strokes:
        losses.append(f"{node}: {strokes} paint strokes stay in the script; a document holds shapes only")


def _walk(
    layer: NukeLayer, above: tuple[NukeLayer, ...]
) -> Iterator[tuple[tuple[NukeLayer, ...], NukeShape | NukeStroke]]:
    for child in layer.children:
        if isinstance(child, NukeLayer):
            yield from _walk(child, (*above, layer))
        else:
            yield (*above, layer), child


def _found(
    name: str, shape: NukeShape, layers: tuple[NukeLayer, ...], height: int, where: str, losses: list[str]
) -> _Found:

    def report(text: str) -> None:
        losses.append(f"{name}: {text}")

    curves = _components(shape, where)
    _report_expressions(shape, layers, report)
    moved = Motion([shape.transform, *(layer.transform for layer in reversed(layers))])
    if moved.is_projective:
        report("perspective of a layer's matrix is applied to points and handles, not along the curve")
    keys = keys_of(curves, moved, shape, height, report)
    _report_attributes(shape, layers, report)
    closed = not shape.outline.flags & OPEN
    return _Found(
        name,
        shape,
        layers,
        keys,
        _feather(shape, closed, report),
        None if closed or _curve(shape, "osw") is None else _attribute(shape, "osw", 0.0),
    )


def _components(shape: NukeShape, where: str) -> list[tuple[NukeCurve, ...]]:
    """Per control point six curves: left tangent, point, right tangent (x, y each). B-spline points stay single."""
    zero = NukeCurve()
    pairs = [(*point.values[:2], *[zero] * (2 - len(point.values[:2]))) for point in shape.outline.points]
    if shape.kind == "catmullrom":
        raise DocumentError(f"{where}: a shape of type catmullrom; wanted bezier or bspline: convert it in Nuke")
    if shape.kind == "bspline":
        return [tuple(pair) for pair in pairs]
    if len(pairs) % 3:
        raise DocumentError(f"{where}: {len(pairs)} entries; wanted three for each control point")
    return [(*pairs[i], *pairs[i + 1], *pairs[i + 2]) for i in range(0, len(pairs), 3)]


def _report_expressions(shape: NukeShape, layers: Sequence[NukeLayer], report: Callable[[str], None]) -> None:
    """Expressions on points, transforms and attributes: baked from what the file keeps of them, or taken as 0."""
    curves = [curve for cubic in (shape.outline, shape.feather) if cubic for p in cubic.points for curve in p.values]
    elements: tuple[NukeShape | NukeLayer, ...] = (shape, *layers)
    for element in elements:
        curves += [*element.transform.values, *(curve for _, curve in element.attributes)]
    bare = sum(1 for curve in curves if curve.expression and curve.is_bare)
    kept = sum(1 for curve in curves if curve.expression and not curve.is_bare)
    if kept:
        report(f"{kept} expressions were replaced by the values that the file keeps of them")
    if bare:
        report(f"{bare} expressions have no value in the file and were taken as 0; bake them in Nuke")
    _report_views([curve.views for curve in curves if curve.views is not None], report)
    codes = {key.code for curve in curves for key in curve.keys if key.code is not None}
    if codes:
        report("keys state their interpolation by number: read as 0 step, 1 linear, 2 cubic")
    if any(code >> 8 == CYCLE for code in codes):
        report("repeats beyond its keys; the document holds the first and the last")


def _report_views(found: Sequence[Views], report: Callable[[str], None]) -> None:
    """Curves by view: which view stands for all."""
    if found:
        names = ", ".join(dict.fromkeys(name for each in found for name in each.names))
        read = ", ".join(dict.fromkeys(each.read for each in found))
        report(f"has curves of its own for the views {names[:60]}; those of {read[:20]} are drawn in all")


def _report_attributes(shape: NukeShape, layers: Sequence[NukeLayer], report: Callable[[str], None]) -> None:
    elements: tuple[NukeShape | NukeLayer, ...] = (shape, *layers)
    usual = {
        "inv": (0.0, "inverted"),
        "bm": (0.0, "has a blending mode"),
        "mbo": (0.0, "has motion blur"),
        "ft": (0.0, "has a smooth feather falloff"),
        "ff": (1.0, "has a feather falloff"),
    }
    for name, (default, text) in usual.items():
        if any(_attribute(element, name, default) != default for element in elements):
            report(f"{text}; the document does not hold that")
    for element in elements:
        opacity = _curve(element, "opc")
        if opacity is not None and any(0.0 < value < 1.0 for value in values_of(opacity)):
            report("is partly transparent; the document draws it whole")
    if any(name == "nv" or re.fullmatch(r"view\d+", name) for each in elements for name, _ in each.attributes):
        report("belongs to some views of a stereo script only; the document draws it in all")
    if _attribute(shape, "a", 1.0) != 1.0:
        report("has a fill alpha of its own; the document draws it whole")
    for point in shape.outline.points:
        if any(name in ("osw", "t", "te") and any(v != 1.0 for v in values_of(c)) for name, c in point.attributes):
            report("has width or tension per point; the document does not hold that")
            break


def _curve(element: NukeShape | NukeLayer, name: str) -> NukeCurve | None:
    for each, curve in element.attributes:
        if each == name:
            return curve
    return None


def _attribute(element: NukeShape | NukeLayer, name: str, default: float) -> float:
    """An attribute's value (its first key's where it is animated)."""
    curve = _curve(element, name)
    return default if curve is None else values_of(curve)[0]


def _feather(shape: NukeShape, closed: bool, report: Callable[[str], None]) -> float:
    """One feather width in pixels from the node's: uniform feather plus the mean length of the feather offsets."""
    if _attribute(shape, "fo", 1.0) == 0.0:
        return 0.0
    if not closed:
        return max(0.0, _attribute(shape, "osf", 0.0))
    uniform = (_attribute(shape, "fx", 0.0) + _attribute(shape, "fy", 0.0)) / 2
    lengths = [0.0]
    if shape.feather is not None:
        step, slot = (1, 0) if shape.kind == "bspline" else (3, 1)
        rows = shape.feather.points[slot::step]
        lengths = [math.hypot(*(value for c in row.values[:2] for value in values_of(c)[:1])) for row in rows] or [0.0]
        if max(lengths) - min(lengths) > 0.1 or any(len(set(values_of(c))) > 1 for row in rows for c in row.values):
            report(
                f"feather of {min(lengths):.1f} to {max(lengths):.1f} px became its mean; the document holds one width"
            )
    if uniform < 0.0:
        report("inward feather is not held by the document")
    return max(0.0, uniform) + sum(lengths) / len(lengths)


# --- finishing --------------------------------------------------------------------------------------------------------


def _names(found: Sequence[_Found], losses: list[str]) -> list[str]:
    """A name of its own for every shape."""
    names: list[str] = []
    taken: set[str] = set()
    for each in found:
        name, count = each.name, 1
        while name in taken:
            count += 1
            name = f"{each.name}_{count}"
        if count > 1:
            losses.append(f"{each.name}: the name stands twice; the other one is called {name}")
        taken.add(name)
        names.append(name)
    return names


def _finish(found: _Found, name: str, first: int, last: int) -> RotoShape:
    closed = not found.shape.outline.flags & OPEN
    is_seam = not closed or "seam" in found.name.lower()
    return RotoShape(
        name=name,
        closed=closed,
        role="seam" if is_seam else "matte",
        keys={first if frame is None else frame: key for frame, key in found.keys.items()},
        width_px=found.width_px,
        feather_px=found.feather_px,
        visible=_visible(found, first, last),
    )


def _visible(found: _Found, first: int, last: int) -> dict[int, bool]:
    """Frames at which the shape, or a layer above it, is switched off, fully transparent or out of its lifetime."""
    elements: tuple[NukeShape | NukeLayer, ...] = (found.shape, *found.layers)
    switches = [
        curve for element in elements for name in ("vis", "opc") if (curve := _curve(element, name)) is not None
    ]
    switches = [curve for curve in switches if any(value <= 0.0 for value in values_of(curve))]
    lives = [(_attribute(e, "ltt", 0.0), _attribute(e, "ltn", 1.0), _attribute(e, "ltm", 1.0)) for e in elements]
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
