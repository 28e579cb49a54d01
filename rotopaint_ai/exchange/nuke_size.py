"""The plate for which the shapes of a Nuke script were drawn: size and pixel aspect.

Standard library only. A node's own `format` knob decides, else the pivot of its root layer, else the script's format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import check_size
from rotopaint_ai.exchange.nuke_motion import Motion, apply_motion
from rotopaint_ai.exchange.nuke_script import ScriptNode
from rotopaint_ai.exchange.nuke_tree import CurvesTree, NukeLayer, NukeShape
from rotopaint_ai.exchange.parsing import SizeConflictError

NODE_KINDS = ("Roto", "RotoPaint")
_FORMAT = re.compile(r"\s*(\d+)\s+(\d+)\b")

Size = tuple[int, int]
NamedTree = tuple[str, CurvesTree, ScriptNode | None]  # a node's name in the document, its tree, its place


@dataclass(frozen=True, slots=True)
class PlateSizes:
    """The document's size, the size that each node was drawn for, and the nodes that do not state theirs."""

    document: Size
    of_node: Mapping[str, Size]
    unstated: frozenset[str] = frozenset()


def plate_sizes(
    nodes: Sequence[ScriptNode],
    trees: Sequence[NamedTree],
    asked: Size | None,
    *,
    override: bool,
    where: str,
    losses: list[str],
) -> PlateSizes:
    """The plate sizes of a script; only nodes with shapes are considered.

    `asked` is the size of the plate. Where the script states another, DocumentError is raised, because a wrong height
    moves every shape. With `override` the size `asked` is used for every node, and `losses` reports it.
    """
    own = {name: _own_sizes(name, tree, node, losses) for name, tree, node in trees}
    deciding = [name for name, tree, _ in trees if any(_drawn_shapes(tree.root))] or list(own)
    stated = [size for name in deciding for size in own[name]]
    stated += [size for node in nodes if node.kind == "Root" for size in _format(node)]
    if asked is not None:
        check_size(*asked, where)
    if asked is not None and stated and asked not in stated:
        conflict = f"made for {stated[0][0]} x {stated[0][1]}, but {asked[0]} x {asked[1]} was given"
        if not override:
            raise SizeConflictError(where, stated[0], asked)
        losses.append(f"{conflict}: the given size is used, which moves every shape by the difference in height")
    if asked is None and not stated:
        raise DocumentError(f"{where}: does not state the size of its plate; give --width and --height")
    size = asked or stated[0]
    check_size(*size, where)
    if asked is not None and override:
        return PlateSizes(size, dict.fromkeys(own, size), frozenset(name for name in own if size not in own[name]))
    sizes = {name: size if size in found or not found else found[0] for name, found in own.items()}
    others = [f"{name} ({sizes[name][0]} x {sizes[name][1]})" for name in deciding if sizes[name] != size]
    if others:
        losses.append(f"the document is {size[0]} x {size[1]}; nodes read at their own other size: {', '.join(others)}")
    return PlateSizes(size, sizes, frozenset(name for name, found in own.items() if not found))


def _drawn_shapes(
    layer: NukeLayer, above: tuple[NukeLayer, ...] = ()
) -> Iterator[tuple[NukeShape, tuple[NukeLayer, ...]]]:
    """Shapes with points in a layer and in the layers inside it, each with its layers, innermost first."""
    around = (layer, *above)
    for child in layer.children:
        if isinstance(child, NukeLayer):
            yield from _drawn_shapes(child, around)
        elif isinstance(child, NukeShape) and len(child.outline.points):
            yield child, around


def _own_sizes(name: str, tree: CurvesTree, node: ScriptNode | None, losses: list[str]) -> tuple[Size, ...]:
    """The sizes that a node states: its format, then its root's pivot.

    Only the pivot counts where no shape lies inside the format.
    """
    stated = [] if node is None else _format(node)
    pivot = _pivot_size(tree)
    if stated and pivot and stated != pivot and not _shows_point(tree, stated[0]) and _shows_point(tree, pivot[0]):
        (w, h), (x, y) = stated[0], pivot[0]
        losses.append(
            f"{name}: its shapes lie outside its format, {w} x {h}; read at {x} x {y}, which its pivot states"
        )
        stated = []
    return tuple(dict.fromkeys([*stated, *pivot]))


def _shows_point(tree: CurvesTree, size: Size) -> bool:
    """Whether a control point lies inside a picture of that size, at its first key."""
    for shape, layers in _drawn_shapes(tree.root):
        moved = Motion([shape.transform, *(layer.transform for layer in layers)])
        for point in shape.outline.points if shape.kind == "bspline" else shape.outline.points[1::3]:
            curves = point.values[:2]
            time = next((curve.keys[0].time for curve in curves if curve.keys), 0.0)
            x, y = (*(curve.at(time) for curve in curves), 0.0, 0.0)[:2]
            x, y = apply_motion(moved.at(time), x, y)
            if 0 <= x <= size[0] and 0 <= y <= size[1]:
                return True
    return False


def _pivot_size(tree: CurvesTree) -> list[tuple[int, int]]:
    """The size whose centre is the root layer's pivot, where there is one."""
    pivot = [curve.at(0) for curve in tree.root.transform.values[:2]]
    if len(pivot) == 2 and min(pivot) > 0 and all((2 * value).is_integer() for value in pivot):
        return [(int(2 * pivot[0]), int(2 * pivot[1]))]
    return []


def _format(node: ScriptNode) -> list[tuple[int, int]]:
    match = _FORMAT.match(node.text("format"))
    return [(int(match[1]), int(match[2]))] if match and int(match[1]) and int(match[2]) else []


def pixel_aspect(nodes: Sequence[ScriptNode]) -> float:
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
