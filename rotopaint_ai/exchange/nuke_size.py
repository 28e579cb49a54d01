"""Which plate the shapes of a Nuke script were drawn for: size and pixel aspect.

Standard library only. A node's own `format` knob decides, else the pivot of its root layer, else the script's format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import check_size
from rotopaint_ai.exchange.nuke_script import ScriptNode
from rotopaint_ai.exchange.nuke_tree import CurvesTree, NukeLayer, NukeShape

NODE_KINDS = ("Roto", "RotoPaint")
_FORMAT = re.compile(r"\s*(\d+)\s+(\d+)\b")

Size = tuple[int, int]
NamedTree = tuple[str, CurvesTree, ScriptNode | None]  # a node's name in the document, its tree, where it stood


@dataclass(frozen=True, slots=True)
class PlateSizes:
    """The document's size, and for each node the sizes that it may have been drawn for, the likeliest first."""

    document: Size
    of_node: Mapping[str, tuple[Size, ...]]


def plate_sizes(
    nodes: Sequence[ScriptNode],
    trees: Sequence[NamedTree],
    asked: Size | None,
    *,
    override: bool,
    where: str,
    losses: list[str],
) -> PlateSizes:
    """Sizes of a script's plates; only nodes that hold shapes decide.

    `asked` is the plate's. Where the script states others, DocumentError is raised, because a wrong height moves every
    shape; with `override` it is taken for every node, and `losses` says so.
    """
    own = {name: _own_sizes(tree, node) for name, tree, node in trees}
    deciding = [name for name, tree, _ in trees if any(_shapes(tree.root))] or list(own)
    stated = [size for name in deciding for size in own[name]]
    stated += [size for node in nodes if node.kind == "Root" for size in _format(node)]
    if asked is not None:
        check_size(*asked, where)
    if asked is not None and stated and asked not in stated:
        conflict = f"made for {stated[0][0]} x {stated[0][1]}, asked for {asked[0]} x {asked[1]}"
        if not override:
            raise DocumentError(f"{where}: {conflict}; leave the size out, or override it with --width and --height")
        losses.append(f"{conflict}: the size asked for is taken, which moves every shape by the difference in height")
    if asked is None and not stated:
        raise DocumentError(f"{where}: does not say the size of its plate; give --width and --height")
    size = asked or stated[0]
    check_size(*size, where)
    if asked is not None and override:
        return PlateSizes(size, dict.fromkeys(own, (size,)))
    sizes = {name: (size,) if size in own[name][:1] else own[name] or (size,) for name in own}
    if asked is not None:
        sizes = {name: (asked,) if asked in found else found for name, found in sizes.items()}
    others = [f"{name} ({sizes[name][0][0]} x {sizes[name][0][1]})" for name in deciding if sizes[name][0] != size]
    if others:
        losses.append(
            f"the document is {size[0]} x {size[1]}; of other sizes, each read at its own: {', '.join(others)}"
        )
    return PlateSizes(size, sizes)


def _shapes(layer: NukeLayer) -> Iterator[NukeShape]:
    """Shapes that have points, in a layer and those within."""
    for child in layer.children:
        if isinstance(child, NukeLayer):
            yield from _shapes(child)
        elif isinstance(child, NukeShape) and len(child.outline.points):
            yield child


def _own_sizes(tree: CurvesTree, node: ScriptNode | None) -> tuple[Size, ...]:
    stated = [] if node is None else _format(node)
    return tuple(dict.fromkeys([*stated, *_pivot_size(tree)]))


def _pivot_size(tree: CurvesTree) -> list[tuple[int, int]]:
    """The size of which the root layer's pivot is the middle, where it is one."""
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
