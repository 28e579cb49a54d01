"""The attributes of a Nuke shape and its layers, and which of them a document cannot hold.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from rotopaint_ai.exchange.nuke_metadata import KEPT
from rotopaint_ai.exchange.nuke_tree import CYCLE, OPEN, NukeCurve, NukeLayer, NukeShape, Views, values_of

Report = Callable[[str], None]

# The blending mode that subtracts a shape from the shapes below it: Silhouette's "Subtract" in the table of
# M. Borgo's NukeFXSExporter, in use since 2013.
MINUS: Final = 12.0


def curve_of(element: NukeShape | NukeLayer, name: str) -> NukeCurve | None:
    """An attribute's curve; None where the file does not state it."""
    for each, curve in element.attributes:
        if each == name:
            return curve
    return None


def attribute(element: NukeShape | NukeLayer, name: str, default: float) -> float:
    """An attribute's value (its first key's where it is animated)."""
    curve = curve_of(element, name)
    return default if curve is None else values_of(curve)[0]


def holds_out(shape: NukeShape) -> bool:
    """Whether a shape is subtracted from the shapes below it, at all frames."""
    curve = curve_of(shape, "bm")
    return curve is not None and set(values_of(curve)) == {MINUS}


def report_expressions(shape: NukeShape, layers: Sequence[NukeLayer], report: Report) -> None:
    """Report expressions on points, transforms and attributes.

    An expression is replaced by the values that the file stores for it, or by 0.
    """
    curves = [curve for cubic in (shape.outline, shape.feather) if cubic for p in cubic.points for curve in p.values]
    elements: tuple[NukeShape | NukeLayer, ...] = (shape, *layers)
    for element in elements:
        curves += [*element.transform.values, *(curve for _, curve in element.attributes)]
    bare = sum(1 for curve in curves if curve.expression and curve.is_bare)
    kept = sum(1 for curve in curves if curve.expression and not curve.is_bare)
    if kept:
        report(f"{kept} expressions were replaced by the values that the file stores for them")
    if bare:
        report(f"{bare} expressions have no value in the file and were read as 0; bake them in Nuke")
    _report_views([curve.views for curve in curves if curve.views is not None], report)
    codes = {key.code for curve in curves for key in curve.keys if key.code is not None}
    if codes:
        report("keys state their interpolation by number: read as 0 step, 1 linear, 2 cubic")
    if any(code >> 8 == CYCLE for code in codes):
        report("repeats outside its keys; the document holds the first and the last key instead")


def _report_views(found: Sequence[Views], report: Report) -> None:
    """Report curves that differ by view, and the view whose curve is used for all."""
    if found:
        names = ", ".join(dict.fromkeys(name for each in found for name in each.names))
        read = ", ".join(dict.fromkeys(each.read for each in found))
        report(f"has separate curves for the views {names[:60]}; those of {read[:20]} are used in all views")


def _differs(curve: NukeCurve | None, usual: float) -> bool:
    """Whether a file states another value than the usual one, at some key."""
    if curve is None or not curve.keys:
        return curve is not None and curve.constant != usual
    return any(key.value != usual for key in curve.keys)


def _is_partial(opacity: NukeCurve) -> bool:
    """Whether an opacity lies between 0 and 1 at a key, or on its way between keys."""
    if not opacity.keys:
        return 0.0 < opacity.constant < 1.0
    return any(0.0 < key.value < 1.0 for key in opacity.keys) or any(
        not a.step and a.value != b.value and min(a.value, b.value) < 1.0 and max(a.value, b.value) > 0.0
        for a, b in pairwise(opacity.keys)
        if b.time - a.time > 1.0
    )


def _report_first_keys(shape: NukeShape, report: Report) -> None:
    """Report what a document holds once for a whole shape, and the file over time."""
    of_edge, of_stroke = {"fo": "feather", "fx": "feather", "fy": "feather"}, {"osw": "width", "osf": "feather"}
    words = of_stroke if shape.outline.flags & OPEN else of_edge
    keyed = [(words[name], curve) for name, curve in shape.attributes if curve.keys and name in words]
    for word in dict.fromkeys(word for word, curve in keyed if len(set(values_of(curve))) > 1):
        report(f"{word} changes over time; that of the first key counts")


def report_attributes(shape: NukeShape, layers: Sequence[NukeLayer], report: Report) -> None:
    """Report attributes that change the picture and that a document cannot hold."""
    elements: tuple[NukeShape | NukeLayer, ...] = (shape, *layers)
    usual = {
        "inv": (0.0, "inverted"),
        "bm": (0.0, "has a blending mode"),
        "mbo": (0.0, "has motion blur"),
        "ft": (0.0, "has a smooth feather falloff"),
        "ff": (1.0, "has a feather falloff"),
    }
    for name, (default, text) in usual.items():
        asked = elements[1:] if name == "bm" and holds_out(shape) else elements
        if any(_differs(curve_of(element, name), default) for element in asked):
            report(f"{text}, {KEPT}")
    for element in elements:
        opacity = curve_of(element, "opc")
        if opacity is not None and _is_partial(opacity):
            report(f"is partly transparent, {KEPT}")
    _report_first_keys(shape, report)
    if any(name == "nv" or re.fullmatch(r"view\d+", name) for each in elements for name, _ in each.attributes):
        report("belongs to some views of a stereo script only; the document draws it in all views")
    if attribute(shape, "a", 1.0) != 1.0:
        report(f"has its own fill alpha, {KEPT}")
    for point in shape.outline.points:
        if any(name in ("osw", "t", "te") and any(v != 1.0 for v in values_of(c)) for name, c in point.attributes):
            report(f"has width or tension per point, {KEPT}")
            break
