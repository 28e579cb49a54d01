"""Reading masks of Fusion and Resolve: polygons and B-splines of a `.setting` or `.comp` as a document.

Standard library only. A mask's own centre, size and rotation are applied where they are not animated; everything else
that a document cannot hold is reported. The handles of a spline's keys, in time and value, define its eases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import DocumentError, list_names
from rotopaint_ai.exchange import feather_edges, lua, parsing, time_eases
from rotopaint_ai.exchange.linear_keys import visible_between
from rotopaint_ai.exchange.lua import LuaTable, Value
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.exchange.time_eases import Timing
from rotopaint_ai.shapes.bake import TOLERANCE_PX
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

_MASKS: Final = {"PolylineMask", "BSplineMask"}
_UNREAD: Final = {"RectangleMask", "EllipseMask", "BitmapMask", "WandMask", "RangesMask", "PaintMask"}
_ADDS: Final = {"Merge", "Add", "Maximum"}  # paint modes that add a mask to its effect mask; the first is the default
_HOLDS_OUT: Final = "Subtract"  # the paint mode that takes a mask away from its effect mask


@dataclass(frozen=True, slots=True)
class _Placing:
    """A mask's own centre, size and rotation, as a map of offsets from the plate's centre, in pixels with y up."""

    x: float
    y: float
    scale: float
    cosine: float
    sine: float

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        return (
            self.scale * (self.cosine * x - self.sine * y) + self.x,
            self.scale * (self.sine * x + self.cosine * y) + self.y,
        )


@dataclass(frozen=True, slots=True)
class _Outline:
    """An outline at each key (the key is None without animation), and the timing of each eased move by first frame."""

    keys: Mapping[int | None, Points]
    closed: bool = True
    timings: Mapping[int, Timing] = field(default_factory=dict)

    def at_frames(self, first: int) -> dict[int, Points]:
        """The keys by frame; an outline without animation is keyed at `first`."""
        return {first if frame is None else frame: points for frame, points in self.keys.items()}


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read the polygon and B-spline masks of a `.setting` or `.comp`. Raises DocumentError."""
    path = Path(path)
    return loads(parsing.text_of(path), width=width, height=height, where=path.name)


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "setting") -> ReadResult:
    """The document in a text of Fusion's; masks without animation get one key at the first frame of the others."""
    head = text.lstrip()
    whole = lua.loads(
        head.removeprefix("Composition").lstrip() if head.startswith("Composition") else text, where=where
    )
    tools = dict(_tools(whole, 0))
    masks = {name: tool for name, tool in tools.items() if tool.kind in _MASKS}
    if not tools and "Tools" in whole.fields:  # of a shot without shapes
        return ReadResult(RotoDocument(*parsing.plate_size(where, None, width, height), 1, 1))
    if not masks:
        raise DocumentError(f"{where}: holds no polygon or B-spline mask; copy the mask nodes out of Fusion")
    warnings = [
        f"{n}: a {t.kind} is not read; convert it to a polygon in Fusion" for n, t in tools.items() if t.kind in _UNREAD
    ]
    size = parsing.plate_size(where, _stated_mask_size(masks, warnings), width, height)
    found = [(name, *_outlines_of(name, mask, tools, size, where, warnings)) for name, mask in masks.items()]
    levels = {name: _visible_levels(name, mask, tools, warnings) for name, mask in masks.items()}
    _report_hold_outs(masks, warnings)
    frames = [f for _, edge, outer in found for f in (*edge.keys, *outer.keys) if f is not None]
    first, last = parsing.frame_range(where, [*frames, *(f for changes in levels.values() for f, _ in changes)])
    shapes = [
        _shape_of_polyline(name, masks[name], edge, outer, levels[name], (first, last), size, warnings)
        for name, edge, outer in found
        if edge.keys
    ]
    aspect = next((_pixel_aspect_of(mask) for mask in masks.values()), 1.0)
    return ReadResult(RotoDocument(*size, first, last, aspect, shapes=tuple(shapes)), tuple(dict.fromkeys(warnings)))


def _tools(table: LuaTable, depth: int) -> Iterator[tuple[str, LuaTable]]:
    """Every tool by name, including tools inside groups and macros."""
    for name, tool in table.table("Tools").fields.items():
        if isinstance(tool, LuaTable) and isinstance(name, str):
            yield name, tool
            if depth < lua.DEEPEST:
                yield from _tools(tool, depth + 1)


def _input(tool: LuaTable, name: str) -> Value:
    return tool.table("Inputs").table(name).fields.get("Value")


def _input_number(tool: LuaTable, name: str, default: float) -> float:
    value = _input(tool, name)
    return value if isinstance(value, float) and math.isfinite(value) else default


def _stated_mask_size(masks: Mapping[str, LuaTable], warnings: list[str]) -> tuple[int, int] | None:
    """The first size that a mask states. Positions are shares of the size, so other masks' sizes do not matter."""
    sizes = {name: (_input_number(m, "MaskWidth", 0), _input_number(m, "MaskHeight", 0)) for name, m in masks.items()}
    stated = {name: (int(w), int(h)) for name, (w, h) in sizes.items() if 0 < w < 1e6 and 0 < h < 1e6}
    if not stated:
        return None
    size = next(iter(stated.values()))
    others = sorted(name for name, each in stated.items() if each != size)
    if others:
        warnings.append(f"size {size[0]} x {size[1]} is used for every mask; made at another size: {', '.join(others)}")
    return size


def _pixel_aspect_of(mask: LuaTable) -> float:
    value = _input(mask, "PixelAspect")
    items = value.items if isinstance(value, LuaTable) else []
    numbers = [item for item in items if isinstance(item, float) and math.isfinite(item)]
    return numbers[0] / numbers[1] if len(numbers) == 2 and min(numbers) > 0 else 1.0


def _outlines_of(
    name: str, mask: LuaTable, tools: Mapping[str, LuaTable], size: tuple[int, int], where: str, warnings: list[str]
) -> tuple[_Outline, _Outline]:
    """A mask's outline, and its second outline where it is enabled."""
    placing = _placing(name, mask, size, warnings)
    here = f"{where}: {name}"
    found = _polylines(mask, "Polyline", tools, placing, size, here, warnings)
    outer = _polylines(mask, "Polyline2", tools, placing, size, here, warnings)
    if not found.keys:
        warnings.append(f"{name}: has no points and is left out")
        return _Outline({}), _Outline({})
    _report_mask_controls(name, mask, warnings)
    _report_border(name, mask, found.closed, warnings)
    is_off = bool(mask.table("Inputs").table("Polyline2").fields.get("Disabled"))
    return found, _Outline({}) if is_off else outer


def _placing(name: str, mask: LuaTable, size: tuple[int, int], warnings: list[str]) -> _Placing:
    for control in ("Center", "Size", "ZRotation", "XRotation", "YRotation"):
        driven = _how_driven(mask, control)
        if driven:
            warnings.append(f"{name}: its {control} {driven}, which is not followed; bake it into the points in Fusion")
    centre = _input(mask, "Center")
    items = centre.items if isinstance(centre, LuaTable) else []
    x, y = [v if isinstance(v, float) and abs(v) < 1e6 else 0.5 for v in (*items, 0.5, 0.5)[:2]]
    if _input_number(mask, "XRotation", 0.0) or _input_number(mask, "YRotation", 0.0):
        warnings.append(f"{name}: is rotated out of the picture plane, which is not followed")
    turn = math.radians(_input_number(mask, "ZRotation", 0.0))
    return _Placing(
        (x - 0.5) * size[0], (y - 0.5) * size[1], _input_number(mask, "Size", 1.0), math.cos(turn), math.sin(turn)
    )


def _polylines(
    mask: LuaTable,
    which: str,
    tools: Mapping[str, LuaTable],
    placing: _Placing,
    size: tuple[int, int],
    where: str,
    warnings: list[str],
) -> _Outline:
    """A mask's outline or second outline at each key, in plate space."""
    given = mask.table("Inputs").table(which)
    rows: dict[int | None, LuaTable] = {}
    splines: dict[int, LuaTable] = {}
    driver = tools.get(given.text("SourceOp"))
    for time, key in driver.table("KeyFrames").fields.items() if driver else ():
        if isinstance(key, LuaTable) and isinstance(time, float):
            frame = round(parsing.finite_number(f"{where}: a key", time))
            rows[frame], splines[frame] = key.table("Value"), key
            if time != round(time):
                warnings.append(f"{where.split(': ')[-1]}: keys between frames were moved to the nearest frame")
    if not rows and given.table("Value").table("Points").items:
        rows = {None: given.table("Value")}
    keys = {
        frame: _points_of_line(line, placing, size, where) for frame, line in rows.items() if line.table("Points").items
    }
    closed = any(line.fields.get("Closed") is True for line in rows.values())
    if mask.kind == "BSplineMask" or any(line.kind == "BSplinePolyline" for line in rows.values()):
        if which == "Polyline":
            warnings.append(f"{where.split(': ')[-1]}: a B-spline became a Bezier shape")
        keys = {frame: _bezier_of_bspline(points, closed) for frame, points in keys.items()}
    return _Outline(keys, closed, _timings_of(where.split(": ")[-1], splines, warnings))


def _timings_of(name: str, keys: Mapping[int, LuaTable], warnings: list[str]) -> dict[int, Timing]:
    """How the spline moves from each key to the next, by the keys' handles."""
    found = {}
    for first, last in pairwise(sorted(keys)):
        begin, end = (keys[frame].items[0] if keys[frame].items else None for frame in (first, last))
        if isinstance(begin, float) and isinstance(end, float) and begin != end:  # otherwise nothing moves
            place = (first, begin, last - first, end - begin)
            found[first] = _handle(keys[first], "RH", 1 / 3, place, name), _handle(keys[last], "LH", 2 / 3, place, name)
    steps = [f for f in keys for way in ("StepIn", "StepOut") if keys[f].table("Flags").fields.get(way) is True]
    if steps:
        warnings.append(
            f"{name}: {len(steps)} keys step, which is read as a move; check that the shape holds where it should"
        )
    return found


def _handle(
    key: LuaTable, side: str, default: float, place: tuple[int, float, int, float], name: str
) -> tuple[float, float]:
    """A key's handle on one side as shares of the move's time and value; `place`: start of both, then their spans."""
    pair = key.table(side).items
    if key.table("Flags").fields.get("Linear") is True or len(pair) != 2:
        return default, default
    time, value = (parsing.finite_number(f"{name}: a handle", number) for number in pair)
    return (time - place[0]) / place[2], (value - place[1]) / place[3]


def _points_of_line(line: LuaTable, placing: _Placing, size: tuple[int, int], where: str) -> Points:
    found = []
    for item in line.table("Points").items:
        if not isinstance(item, LuaTable):
            raise DocumentError(f"{where}: a point is {str(item)[:20]!r}; wanted {{ X = .., Y = .. }}")
        x, y, lx, ly, rx, ry = (
            parsing.finite_number(f"{where}: {label}", item.fields.get(label, 0.0), limit=1e7)
            for label in ("X", "Y", "LX", "LY", "RX", "RY")
        )
        w, h = size
        px, py = placing(x * w, y * h)
        ix, iy = placing((x + lx) * w, (y + ly) * h)
        ox, oy = placing((x + rx) * w, (y + ry) * h)
        found.append(ControlPoint(w / 2 + px, h / 2 - py, ix - px, py - iy, ox - px, py - oy))
    return tuple(found)


def _bezier_of_bspline(points: Points, closed: bool) -> Points:
    """A uniform cubic B-spline as a Bezier curve; an open curve starts and ends on its end points."""
    n = len(points)
    if n < 3:
        return points
    found = []
    for i, p in enumerate(points):
        a, b = points[(i - 1) % n], points[(i + 1) % n]
        if not closed and i in (0, n - 1):
            a = b = p
        x, y = (a.x + 4 * p.x + b.x) / 6, (a.y + 4 * p.y + b.y) / 6
        dx, dy = (b.x - a.x) / 6, (b.y - a.y) / 6
        found.append(ControlPoint(x, y, -dx, -dy, dx, dy))
    return tuple(found)


def _with_outer(shape: RotoShape, outer: _Outline, first: int, keeps_eases: bool, warnings: list[str]) -> RotoShape:
    """The shape with a feather that ends at its second outline; both get keys at each other's key frames."""
    if not outer.keys:
        return shape
    if not shape.closed or {len(points) for points in outer.keys.values()} != {shape.n_points}:
        warnings.append(f"{shape.name}: its second outline does not fit the first; the soft edge is left out")
        return shape
    plain = parsing.foreign_shape(shape.name, True, outer.at_frames(first))
    second = _with_eases(plain, outer.timings, keeps_eases, [])
    frames = sorted({*shape.frames, *second.frames})
    keyed = shape.with_keys({frame: shape.keys.get(frame, Key(shape.at(frame), "human")) for frame in frames})
    return feather_edges.with_lines(keyed, {frame: second.at(frame) for frame in frames})


def _how_driven(mask: LuaTable, control: str) -> str:
    """How a control is driven: `is animated`, `has an expression`, or the empty text for a plain number."""
    found = mask.table("Inputs").table(control)
    if found.text("SourceOp"):
        return "is animated"
    return "has an expression" if found.text("Expression") else ""


def _report_mask_controls(name: str, mask: LuaTable, warnings: list[str]) -> None:
    """Report controls of a mask that a document cannot hold."""
    controls: tuple[tuple[str, float, str], ...] = (
        ("SoftEdge", 0.0, "soft edge by blur"),
        ("Invert", 0.0, "inversion"),
        ("MotionBlur", 0.0, "motion blur"),
    )
    for control, default, what in controls:
        if _how_driven(mask, control) or _input_number(mask, control, default) != default:
            warnings.append(f"{name}: {what} is not held by the document")
    for control, default in (("WritePosition", 0.0), ("WriteLength", 1.0)):
        if _how_driven(mask, control) or _input_number(mask, control, default) != default:
            warnings.append(f"{name}: is drawn partly ({control}); the document draws it completely")
    if 0.0 < _input_number(mask, "Level", 1.0) < 1.0:
        warnings.append(f"{name}: is partly transparent; the document draws it opaque")
    mode = _paint_mode(mask)
    if mode not in _ADDS and mode != _HOLDS_OUT:
        warnings.append(f"{name}: is in mode {mode.lower()}; the document adds every shape")


def _paint_mode(mask: LuaTable) -> str:
    value = _input(mask, "PaintMode")
    word = value.items[0] if isinstance(value, LuaTable) and value.items else value
    return word if isinstance(word, str) else "Merge"


def _report_hold_outs(masks: Mapping[str, LuaTable], warnings: list[str]) -> None:
    """Report hold-outs that are not subtracted from every other mask, but only from those that lead into them."""
    added = {name for name, mask in masks.items() if _paint_mode(mask) != _HOLDS_OUT}
    for name, mask in masks.items():
        if name not in added and not added <= _effect_masks(mask, masks):
            warnings.append(
                f"{name}: is subtracted only from the shapes before it; the document subtracts it from every shape"
            )


def _effect_masks(mask: LuaTable, masks: Mapping[str, LuaTable]) -> set[str]:
    """The masks that lead into a mask, one through another."""
    found: set[str] = set()
    while (name := mask.table("Inputs").table("EffectMask").text("SourceOp")) in masks and name not in found:
        found.add(name)
        mask = masks[name]
    return found


def _report_border(name: str, mask: LuaTable, closed: bool, warnings: list[str]) -> None:
    """Report a border that is not the width of a stroke."""
    driven = _how_driven(mask, "BorderWidth")
    if not closed:
        if driven:
            warnings.append(f"{name}: its BorderWidth {driven}, which is not followed; the document holds one width")
    elif _input_number(mask, "Solid", 1.0) == 0.0:
        warnings.append(f"{name}: is drawn only as an outline; the document fills it")
    elif driven or _input_number(mask, "BorderWidth", 0.0) != 0.0:
        warnings.append(f"{name}: its BorderWidth moves the edge, which is not held by the document")


def _shape_of_polyline(
    name: str,
    mask: LuaTable,
    edge: _Outline,
    outer: _Outline,
    levels: list[tuple[int, bool]],
    span: tuple[int, int],
    size: tuple[int, int],
    warnings: list[str],
) -> RotoShape:
    by_frame = edge.at_frames(span[0])
    kept = parsing.same_count(name, by_frame)
    if len(kept) < len(by_frame):
        gone = sorted(set(by_frame) - set(kept))
        warnings.append(f"{name}: its points change in number; keys at {list_names(gone)} are left out")
    width = None if edge.closed else _input_number(mask, "BorderWidth", 0.0) * size[0] or None
    keeps_eases = not outer.keys or (outer.timings, set(outer.keys)) == (edge.timings, set(edge.keys))
    looks = replace(
        _with_eases(parsing.foreign_shape(name, edge.closed, kept), edge.timings, keeps_eases, warnings),
        width_px=None if width is None else round(width, 6),
        visible=visible_between(levels or [(span[0], _input_number(mask, "Level", 1.0) > 0.0)], *span),
        subtract=_paint_mode(mask) == _HOLDS_OUT,
    )
    return _with_outer(looks, outer, span[0], keeps_eases, warnings)


def _with_eases(shape: RotoShape, timings: Mapping[int, Timing], keeps_eases: bool, warnings: list[str]) -> RotoShape:
    """The shape with its spline's timing: `ease` where it equals ours and is kept, else additional linear keys."""
    keys = dict(shape.keys)
    for first, last in pairwise(shape.frames):
        kind = time_eases.known_kind(timings.get(first, time_eases.LINEAR))
        if kind == "ease" and keeps_eases:
            keys[first] = replace(keys[first], interpolation="ease")
        elif kind != "linear":
            more = time_eases.linear_keys_along(shape.keys[first], shape.keys[last], first, last, timings[first])
            keys |= {frame: key for frame, key in more.items() if first < frame < last}
    n_more = len(keys) - len(shape.keys)
    if n_more:
        warnings.append(f"{shape.name}: eases became {n_more} additional linear keys, within {TOLERANCE_PX} px")
    return shape.with_keys(dict(sorted(keys.items())))


def _visible_levels(
    name: str, mask: LuaTable, tools: Mapping[str, LuaTable], warnings: list[str]
) -> list[tuple[int, bool]]:
    """Keys of a mask's animated level: the frame, and whether the mask is visible from there."""
    keys: dict[int, tuple[float, LuaTable]] = {}
    driver = tools.get(mask.table("Inputs").table("Level").text("SourceOp"), LuaTable())
    for time, key in driver.table("KeyFrames").fields.items():
        if isinstance(time, float) and isinstance(key, LuaTable) and key.items and isinstance(key.items[0], float):
            keys[round(parsing.finite_number("Level", time))] = key.items[0], key.table("Flags")
    driven = _how_driven(mask, "Level")
    if driven and not keys:
        warnings.append(f"{name}: its Level {driven}, which is not followed; bake it into keys in Fusion")
    rows = sorted((frame, value, flags) for frame, (value, flags) in keys.items())
    fades = [(a, b) for a, b in pairwise(rows) if b[0] > a[0] + 1 and a[1] != b[1] and not _steps(a[2], b[2])]
    if fades or any(0.0 < value < 1.0 for _, value, _ in rows):
        warnings.append(f"{name}: is partly transparent at times; the document draws it opaque")
    shown_after = [(a[0] + 1, True) for a, b in fades if b[1] > 0.0]
    return sorted([*((frame, value > 0.0) for frame, value, _ in rows), *shown_after])


def _steps(begin: LuaTable, end: LuaTable) -> bool:
    """Whether the value jumps between two keys with these flags."""
    return begin.fields.get("StepOut") is True or end.fields.get("StepIn") is True
