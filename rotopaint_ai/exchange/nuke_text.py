"""Writing the `curves` knob of Nuke's Roto and RotoPaint nodes: a tree as text that Nuke and `nuke_curves` can read.

Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rotopaint_ai.exchange.nuke_tree import (
    Attributes,
    CurveKey,
    CurvePoint,
    CurvesTree,
    NukeCubic,
    NukeCurve,
    NukeLayer,
    NukeShape,
    NukeStroke,
    NukeTransform,
    Times,
)


def nuke_number(value: float) -> str:
    """A number as Nuke saves it: 0 and 1 plain, all others as `x` and the eight hex digits of a 32-bit float."""
    packed = struct.pack(">f", value)
    if packed == b"\x00\x00\x00\x00":
        return "0"
    return "1" if packed == b"\x3f\x80\x00\x00" else "x" + packed.hex()


def serialise(tree: CurvesTree) -> str:
    """A tree as the text between the outer braces of a `curves` value; `parse_curves` reads the same tree back."""
    body = _layer_text(tree.root, "   ")
    return f"{{{{v {nuke_number(tree.version)}}}\n  {{f {tree.flags}}}\n  {{n\n{body}}}}}"


def _layer_text(layer: NukeLayer, indent: str) -> str:
    inner = indent + " "
    lines = [
        f"{indent}{{layer {layer.name}",
        f"{inner}{{f {layer.flags}}}",
        inner + _transform_text(layer.transform),
        inner + _attributes_text(layer.attributes),
    ]
    for child in layer.children:
        lines.append(_layer_text(child, inner) if isinstance(child, NukeLayer) else _element_text(child, inner))
    return "\n".join(lines) + "}"


def _element_text(element: NukeShape | NukeStroke, indent: str) -> str:
    tail = f"{indent} {_transform_text(element.transform)}\n{indent} {_attributes_text(element.attributes)}}}"
    if isinstance(element, NukeStroke):
        head = f"{indent}{{cubiccurve {element.name} {element.flags} {element.kind}\n"
        return head + f"{_cubic_text(element.cubic, indent + ' ')}\n{tail}"
    head = f"{indent}{{curvegroup {element.name} {element.flags} {element.kind}\n{indent} {{\n"
    feather = f"{indent}  idem" if element.feather is None else _cubic_text(element.feather, indent + "  ")
    return head + f"{_cubic_text(element.outline, indent + '  ')}\n{feather}}}\n{tail}"


def _cubic_text(cubic: NukeCubic, indent: str) -> str:
    inner = indent + "  "
    head = "p" if cubic.times is None else f"px {_times_text(cubic.times)}"
    rows = "".join(f"\n{inner}{_point_text(point, cubic.times)}" for point in cubic.points)
    return f"{indent}{{cc\n{indent} {{f {cubic.flags}}}\n{indent} {{{head}{rows}}}}}"


def _times_text(times: Times) -> str:
    return nuke_number(times[0]) if len(times) == 1 else "{" + " ".join(map(nuke_number, times)) + "}"


def _point_text(point: CurvePoint, times: Times | None) -> str:
    words = [_attributes_text(point.attributes)] if point.attributes else []
    words += [_component_text(curve, times) for curve in point.values]
    return "{" + " ".join(words) + "}"


def _transform_text(transform: NukeTransform) -> str:
    head = ["t"] if transform.times is None else ["tx", _times_text(transform.times)]
    return "{" + " ".join(head + [_component_text(curve, transform.times) for curve in transform.values]) + "}"


def _attributes_text(attributes: Attributes) -> str:
    return "{" + " ".join(["a"] + [f"{name} {_curve_text(curve)}" for name, curve in attributes]) + "}"


def _component_text(curve: NukeCurve, times: Times | None) -> str:
    if times is None:
        return _curve_text(curve)
    return _wrap_curve(curve, _shared_text(curve, times))


def _shared_text(curve: NukeCurve, times: Times) -> str:
    if not curve.keys:
        return nuke_number(curve.constant)
    if len(times) == 1 and curve.keys[0].step and curve.keys[0].code is None:
        return nuke_number(curve.keys[0].value)
    if len(times) > 1 and len({key[1:] for key in curve.keys}) == 1:
        return "{" + _key_text(curve.keys[0], False) + "}"  # one value for all times
    return "{" + " ".join(_key_text(key, False) for key in curve.keys) + "}"


def _curve_text(curve: NukeCurve) -> str:
    if not curve.keys:
        return _wrap_curve(curve, nuke_number(curve.constant))
    return _wrap_curve(curve, "{" + " ".join(_key_text(key, True) for key in curve.keys) + "}")


def _wrap_curve(curve: NukeCurve, text: str) -> str:
    if curve.views is not None:
        return curve.views.text
    if curve.expression is None:
        return text
    return f"{{{curve.expression}}}" if curve.is_bare else f"{{{curve.expression} {text}}}"


def _key_text(key: CurveKey, timed: bool) -> str:
    short = key.step and key.code is None
    words: Sequence[float] = (key.value,) if short else key[1:6]
    text = " ".join(map(nuke_number, words)) + ("" if key.code is None else f" {key.code}")
    if timed:
        return f"{{{nuke_number(key.time)} {text}}}"
    return text if short else f"{{{text}}}"
