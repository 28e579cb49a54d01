"""A second reading of Nuke's roto text, sharing nothing with the product: nested lists, Hermite keys, Bezier points.

It knows just the forms that the product writes (`px` with shared times, five-word keys, bare step keys) and evaluates
them by the rules of the format note: slopes per frame, weights of a third, y up, tangents relative.
"""

from __future__ import annotations

import struct
from typing import Any


def lists(text: str) -> list[Any]:
    """Text with braces as nested lists."""
    for sign in "{}":
        text = text.replace(sign, f" {sign} ")
    out: list[Any] = []
    stack = [out]
    for word in text.split():
        if word == "{":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif word == "}":
            stack.pop()
        else:
            stack[-1].append(word)
    assert len(stack) == 1
    return out


def number(word: str) -> float:
    return float(struct.unpack("!f", bytes.fromhex(word[1:]))[0]) if word[0] == "x" else float(word)


def groups(tree: Any) -> dict[str, list[Any]]:
    """Every curvegroup by name."""
    found: dict[str, list[Any]] = {}
    if isinstance(tree, list):
        if tree and tree[0] == "curvegroup":
            found[tree[1]] = tree
        for each in tree:
            found |= groups(each)
    return found


def attributes(group: list[Any]) -> dict[str, Any]:
    return dict(zip(group[6][1::2], group[6][2::2]))


def flags(group: list[Any]) -> tuple[int, int]:
    """The flags of the shape and of its outline."""
    return int(group[2]), int(group[4][0][1][1])


def times(group: list[Any]) -> list[float]:
    words = group[4][0][2][1]
    return [number(word) for word in (words if isinstance(words, list) else [words])]


def component(items: Any, at: list[float], frame: float) -> float:
    """Value of one component at a frame."""
    if isinstance(items, str):
        return number(items)
    if len(items) == 1 and len(at) > 1:
        items = items * len(at)
    keys = [(item,) if isinstance(item, str) else tuple(item) for item in items]
    assert len(keys) == len(at)
    if frame <= at[0]:
        return number(keys[0][0])
    for i in range(len(at) - 1):
        if at[i] <= frame < at[i + 1]:
            a, b = keys[i], keys[i + 1]
            y0, y1 = number(a[0]), number(b[0])
            if len(a) == 1:
                return y0
            assert a[4] == "1"
            span = at[i + 1] - at[i]
            m0 = number(a[3]) * span
            m1 = (number(b[1]) if len(b) == 5 else 0.0) * span
            u = (frame - at[i]) / span
            h00, h10 = 2 * u**3 - 3 * u**2 + 1, u**3 - 2 * u**2 + u
            return h00 * y0 + h10 * m0 + (1 - h00) * y1 + (u**3 - u**2) * m1
    return number(keys[-1][0])


def control_points(group: list[Any], frame: float, height: int) -> list[tuple[float, ...]]:
    """Control points [x, y, in, in, out, out] in plate space."""
    at = times(group)
    rows = group[4][0][2][2:]
    values = [[component(c, at, frame) for c in row] for row in rows]
    return [
        (px, height - py, lx, -ly, rx, -ry)
        for (lx, ly), (px, py), (rx, ry) in zip(values[::3], values[1::3], values[2::3], strict=True)
    ]


def paths(tree: Any, above: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """Every curvegroup by the names of its layers (Root left out) and its own, joined by `/`, in file order."""
    found: dict[str, list[Any]] = {}
    if isinstance(tree, list):
        if tree and tree[0] == "curvegroup":
            found["/".join((*above[1:], tree[1]))] = tree
        inner = (*above, tree[1]) if tree and tree[0] == "layer" else above
        for each in tree:
            found |= paths(each, inner)
    return found


def is_open(group: list[Any]) -> bool:
    """Whether the outline's open bit is set; the shape's own flags must agree."""
    shape, outline = flags(group)
    assert bool(shape & 1048576) == bool(outline & 1048576) == bool(outline & 32)
    assert outline & 8192, "tangents are relative"
    assert shape & 512, "the shape is renderable"
    return bool(outline & 32)


def timed(value: Any, frame: float) -> float:
    """The value of an attribute at a frame: a constant, or step keys with their times."""
    if isinstance(value, str):
        return number(value)
    before = [number(key[1]) for key in value if number(key[0]) <= frame]
    assert all(len(key) == 2 for key in value), "a switch steps"
    return before[-1] if before else number(value[0][1])


def is_visible(group: list[Any], frame: float) -> bool:
    """Visibility by `vis`. A lifetime would be written as `ltt`, which must be absent."""
    found = attributes(group)
    assert "ltt" not in found
    return timed(found.get("vis", "1"), frame) > 0


def softness(group: list[Any]) -> tuple[float, float]:
    """Feather and stroke width in pixels: `fx`, `fy` of a closed shape (equal), `osf`, `osw` of an open one."""
    found = attributes(group)
    if is_open(group):
        return number(found["osf"]), number(found["osw"])
    x, y = number(found.get("fx", "0")), number(found.get("fy", "0"))
    assert x == y
    return x, 0.0


def lifetime(group: list[Any]) -> tuple[float, float]:
    """The stated first and last frame."""
    found = attributes(group)
    return number(found["ltn"]), number(found["ltm"])


def format_of(text: str) -> tuple[int, int, float]:
    """Width, height and pixel aspect of the node's format knob."""
    line = next(line for line in text.splitlines() if line.startswith(" format "))
    words = line.strip().split('"')[1].split()
    w, h = int(words[0]), int(words[1])
    assert words[2:6] == ["0", "0", words[0], words[1]]
    return w, h, float(words[6])
