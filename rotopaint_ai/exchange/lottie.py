"""Lottie, `.lottie.json`: animated vectors for browsers, video editors and motion graphics.

Standard library only. There is a layer for each shape. Points are pixels with y down, handles are offsets, as in our
document. Times count from 0 at the shot's first frame, because Glaxnimate always plays from 0; the number of the first
frame is stored too. Keys are linear, hold, or eased by a cubic in time, which can express our `ease`. Source: the
Lottie Animation Community's specification 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import DocumentError, list_names
from rotopaint_ai.exchange import lossiness, parsing, time_eases
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.linear_keys import switches, visible_between
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.bake import TOLERANCE_PX
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, ControlPoint, Interpolation, Key, Points, RotoDocument, RotoShape

KEEPS: Final[frozenset[Feature]] = frozenset(
    (
        "tangents",
        "points",
        "open",
        "keys",
        "holds",
        "width",
        "visibility",
        "names",
        "order",
        "fps",
        "range",
        "size",
    )
)
WORDS: Final[Mapping[Feature, str]] = {"feather": "{names}: feather is not written: a Lottie file has none"}
_WANTED: Final = "an animation with layers of shapes"
_STATIC: Final = {"o": 100, "r": 0, "p": [0, 0], "a": [0, 0], "s": [100, 100]}
_DEEPEST: Final = 50  # depth of nested groups


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that a Lottie file cannot hold."""
    return lossiness.list_losses(document, keeps=KEEPS, words=WORDS)


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """The document as a Lottie file. Raises DocumentError on numbers that are not finite."""
    shapes = [shape for shape in document.shapes if shape.keys]
    data = {
        "v": "5.7.0",
        "fr": document.fps,
        "ip": 0,
        "op": _duration(document),
        "w": document.width,
        "h": document.height,
        "nm": "RotoPaint",
        "ddd": 0,
        "rotopaint": {"first_frame": document.first_frame},
        "assets": [],
        "layers": [_layer_of(shape, place, document) for place, shape in enumerate(shapes, 1)],
    }
    return json.dumps(data, allow_nan=False).replace('{"t":', '\n{"t":').replace('{"ty": 4', '\n{"ty": 4') + "\n"


def _layer_of(shape: RotoShape, place: int, document: RotoDocument) -> dict[str, Any]:
    keys = [_path_key(frame, shape, document.first_frame) for frame in shape.frames]
    path = {"ty": "sh", "nm": shape.name, "ks": {"a": 1, "k": keys}}
    look = (
        _fill_look() if shape.closed else _stroke_look(DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px)
    )
    group = {"ty": "gr", "nm": shape.name, "it": [path, look, {"ty": "tr", **_still_transform()}]}
    return {
        "ty": 4,
        "nm": shape.name,
        "ind": place,
        "ip": 0,
        "op": _duration(document),
        "st": 0,
        "ks": {**_still_transform(), "o": _opacity(shape, document)},
        "shapes": [group],
    }


def _duration(document: RotoDocument) -> int:
    return document.last_frame + 1 - document.first_frame


def _path_key(frame: int, shape: RotoShape, first: int) -> dict[str, Any]:
    key = shape.keys[frame]
    parsing.check_numbers(shape.name, (v for point in key.points for v in point))
    rows = [[round(v, 6) for v in point] for point in key.points]
    path = {"i": [r[2:4] for r in rows], "o": [r[4:] for r in rows], "v": [r[:2] for r in rows], "c": shape.closed}
    if key.interpolation == "hold":
        return {"t": frame - first, "s": [path], "h": 1}
    if frame == shape.frames[-1]:
        return {"t": frame - first, "s": [path]}  # rlottie does not draw a path whose last key has a follower
    leaving, arriving = time_eases.EASE if key.interpolation == "ease" else time_eases.LINEAR
    return {"t": frame - first, "s": [path], "o": _ease_handle(leaving), "i": _ease_handle(arriving)}


def _ease_handle(at: tuple[float, float]) -> dict[str, list[float]]:
    return {"x": [round(at[0], 9)], "y": [round(at[1], 9)]}


def _constant_value(value: object) -> dict[str, object]:
    return {"a": 0, "k": value}


def _still_transform() -> dict[str, Any]:
    return {name: _constant_value(value) for name, value in _STATIC.items()}


def _opacity(shape: RotoShape, document: RotoDocument) -> dict[str, Any]:
    first = document.first_frame
    changes = switches(shape, first, document.last_frame)
    if not changes:
        return _constant_value(100)
    return {"a": 1, "k": [{"t": frame - first, "s": [100 if shown else 0], "h": 1} for frame, shown in changes]}


def _fill_look() -> dict[str, Any]:
    return {"ty": "fl", "c": _constant_value([1, 1, 1, 1]), "o": _constant_value(100), "r": 1}


def _stroke_look(width: float) -> dict[str, Any]:
    look = {"c": _constant_value([1, 1, 1, 1]), "o": _constant_value(100), "w": _constant_value(width)}
    return {"ty": "st", **look, "lc": 2, "lj": 2}


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PathItem:
    """A path of a layer: its name, its curve, and the width of its stroke."""

    name: str
    curve: Mapping[str, Any]
    width_px: float | None


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read the paths and masks of a Lottie file. Raises DocumentError."""
    path = Path(path)
    return loads(parsing.text_of(path), width=width, height=height, where=path.name)


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "animation") -> ReadResult:
    """The document in the text of a Lottie file: the paths and masks of its layers, without transforms."""
    data = parsing.json_of(text, where, wanted=_WANTED)
    if not is_lottie(data):
        raise DocumentError(f"{where}: is not a Lottie animation; wanted {_WANTED}")
    size = (parsing.parse_integer(f"{where}: w", data.get("w")), parsing.parse_integer(f"{where}: h", data.get("h")))
    size = parsing.plate_size(where, size, width, height)
    fps = parsing.finite_number(f"{where}: fr", data.get("fr"))
    if fps <= 0:
        raise DocumentError(f"{where}: frame rate {fps:g}; it must be above 0")
    first, end = (round(parsing.finite_number(f"{where}: {name}", data.get(name))) for name in ("ip", "op"))
    span = parsing.frame_range(where, [first, max(first, end - 1)])
    warnings: list[str] = []
    taken, layers = parsing.TakenNames(), _objects(data["layers"], where)
    shapes = tuple(
        _shape_of_item(item, layer, parsing.free_name(item.name, taken), span, where, warnings)
        for layer in layers
        for item in _items_of_layer(layer, layers, where, warnings)
    )
    span = parsing.frame_range(where, [*span, *(frame for shape in shapes for frame in shape.frames)])
    found = RotoDocument(*size, *span, 1.0, fps, shapes=shapes)
    numbered = parsing.parse_integer(f"{where}: first_frame", _object_of(data.get("rotopaint")).get("first_frame", 0))
    return ReadResult(edit.shift_frames(found, numbered), tuple(dict.fromkeys(warnings)))


def is_lottie(data: object) -> bool:
    """Whether a JSON value looks like a Lottie animation."""
    return isinstance(data, dict) and isinstance(data.get("layers"), list) and {"fr", "ip", "op"} <= set(data)


def _objects(rows: object, where: str) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise DocumentError(f"{where}: holds a list without objects where {_WANTED} has them; export it again")
    return rows


def _items_of_layer(
    layer: Mapping[str, Any], layers: Sequence[Mapping[str, Any]], where: str, warnings: list[str]
) -> list[_PathItem]:
    """The masks and paths of a layer, each with its own name where there are several."""
    name = str(layer.get("nm") or f"layer {layer.get('ind', '')}".strip())
    masks = [_mask_item(mask, name, where, warnings) for mask in _objects(layer.get("masksProperties", []), where)]
    found = [*masks, *_items_of_group(_objects(layer.get("shapes", []), where), name, where, warnings)]
    if layer.get("ty") == 0:
        warnings.append(f"{name}: is a separate composition and is left out; export it by itself")
    if found and not all(_stands_still(each.get("ks", {})) for each in _with_parents(layer, layers)):
        warnings.append(f"{name}: is moved, scaled or rotated; its paths are read without that transform")
    return found if len(found) == 1 else [replace(item, name=f"{name}/{item.name}") for item in found]


def _with_parents(layer: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A layer and its parents, each once."""
    by_number, found = {str(each.get("ind")): each for each in layers}, [layer]
    while (above := by_number.get(str(found[-1].get("parent", "none")))) is not None and above not in found:
        found.append(above)
    return found


def _mask_item(mask: Mapping[str, Any], name: str, where: str, warnings: list[str]) -> _PathItem:
    if mask.get("mode", "a") not in ("a", "l") or mask.get("inv"):
        warnings.append(f"{name}: a mask that is inverted or not added; the document adds every shape")
    if not _is_opaque(mask, where):
        warnings.append(f"{name}: its mask is transparent, partly or fully; the document draws it opaque")
    return _PathItem(str(mask.get("nm") or name), _object_of(mask.get("pt")), None)


def _items_of_group(
    rows: Sequence[Mapping[str, Any]], name: str, where: str, warnings: list[str], depth: int = 0
) -> Iterator[_PathItem]:
    if depth > _DEEPEST:
        raise DocumentError(f"{where}: groups nested deeper than {_DEEPEST}; flatten them and export again")
    width = next((_number_of(row.get("w"), where) for row in rows if row.get("ty") == "st"), None)
    drawn = [row for row in rows if row.get("hd") is not True]
    fills, strokes = ([row for row in drawn if row.get("ty") in kinds] for kinds in (("fl", "gf"), ("st", "gs")))
    if not all(_is_opaque(row, where) for row in fills or strokes):
        warnings.append(f"{name}: its fill or stroke is transparent, partly or fully; the document draws it opaque")
    for row in rows:
        own, kind = str(row.get("nm") or name), row.get("ty")
        if row.get("hd") is True and kind in ("gr", "sh"):
            warnings.append(f"{own}: is hidden and is left out")
        elif kind == "gr":
            yield from _items_of_group(_objects(row.get("it", []), where), own, where, warnings, depth + 1)
        elif kind == "sh":
            yield _PathItem(own, _object_of(row.get("ks")), width)
        elif kind == "tr":
            if not _stands_still(row):
                warnings.append(
                    f"{name}: is moved, scaled or rotated in its group; its paths are read without that transform"
                )
            if not _is_opaque(row, where):
                warnings.append(f"{name}: its group is transparent, partly or fully; the document draws it opaque")
        elif kind in ("rc", "el", "sr"):
            warnings.append(f"{name}: a rectangle, ellipse or star is left out; convert it to a path")


def _object_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number_of(value: object, where: str) -> float:
    """A property's number; the first key's where it is animated."""
    found = _object_of(value).get("k", 0.0)
    if isinstance(found, list) and found:
        found = _object_of(found[0]).get("s", found[0]) if isinstance(found[0], dict) else found[0]
    return parsing.finite_number(f"{where}: a value", found[0] if isinstance(found, list) and found else found)


def _stands_still(transform: object) -> bool:
    """Whether a transform is the identity at all times."""
    found = {name: _object_of(_object_of(transform).get(name)).get("k", usual) for name, usual in _STATIC.items()}
    at, about, scale = (found[name][:2] if isinstance(found[name], list) else None for name in ("p", "a", "s"))
    return at is not None and at == about and scale == [100, 100] and found["r"] == 0


def _shape_of_item(
    item: _PathItem,
    layer: Mapping[str, Any],
    name: str,
    span: tuple[int, int],
    where: str,
    warnings: list[str],
) -> RotoShape:
    here = f"{where}: '{name[:60]}'"
    found, closed = _keys_of_curve(item.curve.get("k"), span[0], here, name, warnings)
    kept = parsing.same_count(here, {frame: key.points for frame, key in found.items()})
    if len(kept) < len(found):
        gone = sorted(set(found) - set(kept))
        warnings.append(f"{name}: its points change in number; keys at {list_names(gone)} are left out")
    base = parsing.foreign_shape(name, closed, kept)
    return replace(
        base,
        keys={frame: found[frame] for frame in base.frames},
        width_px=None if closed else item.width_px,
        visible={
            **_hidden_by_opacity(_object_of(layer.get("ks")).get("o"), name, span, here, warnings),
            **_hidden_by_layer(layer, span, here),
        },
    )


def _keys_of_curve(rows: object, first: int, where: str, name: str, warnings: list[str]) -> tuple[dict[int, Key], bool]:
    """A curve's keys by frame, and whether it is closed."""
    if isinstance(rows, dict):
        rows = [{"t": first, "s": [rows]}]
    entries = _objects(rows, where)
    if not entries:
        raise DocumentError(f"{where}: has no key; delete it or export again")
    keys, by_frame, closed = {}, {}, True
    for entry, before in zip(entries, [{}, *entries]):
        path = _first_path(entry.get("s", before.get("e")))
        closed = path.get("c", True) is True
        frame = parsing.whole_frame(f"{where}: a key's time", entry.get("t"), name, warnings)
        keys[frame], by_frame[frame] = Key(_points_of_path(path, where), "human"), entry
    return _keys_with_eases(keys, by_frame, where, name, warnings), closed


def _first_path(value: object) -> Mapping[str, Any]:
    return _object_of(value[0] if isinstance(value, list) and value else value)


def _points_of_path(path: Mapping[str, Any], where: str) -> Points:
    rows = [each if isinstance(each, list) else [] for each in (path.get(name) for name in ("v", "i", "o"))]
    if not rows[0] or len({len(each) for each in rows}) != 1:
        raise DocumentError(
            f"{where}: a path needs equal numbers of points, incoming and outgoing handles; export it again"
        )
    return tuple(ControlPoint(*(v for pair in three for v in _xy(pair, where))) for three in zip(*rows))


def _xy(value: object, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) < 2:
        raise DocumentError(f"{where}: a point is {str(value)[:30]}; wanted [x, y]")
    x, y = (parsing.finite_number(f"{where}: a point", each) for each in value[:2])
    return x, y


def _keys_with_eases(
    keys: Mapping[int, Key], entries: Mapping[int, Mapping[str, Any]], where: str, name: str, warnings: list[str]
) -> dict[int, Key]:
    """The keys with interpolation; eases that our document cannot hold become additional linear keys."""
    found, added = dict(keys), 0
    for frame, after in pairwise((*sorted(keys), max(keys))):
        kind, timing = _move_of(entries[frame], where)
        found[frame] = replace(keys[frame], interpolation=kind)
        if timing is not None and after > frame + 1 and len(keys[frame].points) == len(keys[after].points):
            more = time_eases.linear_keys_along(keys[frame], keys[after], frame, after, timing)
            found.update(more)
            added += len(more)
    if added:
        warnings.append(f"{name}: eases became {added} additional linear keys, within {TOLERANCE_PX} px")
    return found


def _move_of(entry: Mapping[str, Any], where: str) -> tuple[Interpolation, time_eases.Timing | None]:
    """The interpolation after a key, and its timing where our document has no equal ease."""
    if entry.get("h") == 1:
        return "hold", None
    if "o" not in entry or "i" not in entry:
        return "linear", None
    leaving, arriving = (
        (_number_of({"k": end.get("x")}, where), _number_of({"k": end.get("y")}, where))
        for end in (_object_of(entry["o"]), _object_of(entry["i"]))
    )
    kind = time_eases.known_kind((leaving, arriving))
    return (kind, None) if kind else ("linear", (leaving, arriving))


def _hidden_by_opacity(
    opacity: object, name: str, span: tuple[int, int], where: str, warnings: list[str]
) -> dict[int, bool]:
    changes = []
    entries = _opacity_keys(opacity, span[0], where)
    for entry, after in zip(entries, [*entries[1:], {}]):
        value, later = _percent(entry, where), _percent(after or entry, where)
        fades = entry.get("h") != 1 and later != value and _time(after, where) - _time(entry, where) > 1.0
        if 0.0 < value < 100.0 or fades:
            warnings.append(f"{name}: is partly transparent at times; the document draws it opaque")
        frame = parsing.whole_frame(f"{where}: a key's time", entry.get("t"), name, warnings)
        changes.append((frame, value > 0.0))
        if fades and later > 0.0:
            changes.append((frame + 1, True))
    return visible_between(sorted(changes), *span)


def _opacity_keys(opacity: object, first: int, where: str) -> list[dict[str, Any]]:
    """The keys of an opacity; one at `first` where it is not animated."""
    rows = _object_of(opacity).get("k", 100)
    keyed = isinstance(rows, list) and rows and isinstance(rows[0], dict)
    found = _objects(rows if keyed else [{"t": first, "s": rows}], where)
    # earlier files state the value of a last key as the end of the one before it
    return [{"s": before.get("e", 100), **each} for before, each in zip([{}, *found], found)]


def _time(key: Mapping[str, Any], where: str) -> float:
    return _number_of({"k": key.get("t", 0)}, where)


def _percent(key: Mapping[str, Any], where: str) -> float:
    return _number_of({"k": key.get("s", 100)}, where)


def _is_opaque(row: Mapping[str, Any], where: str) -> bool:
    """Whether a mask, fill, stroke or group is fully opaque at all its keys."""
    return all(_percent(key, where) == 100.0 for key in _opacity_keys(row.get("o"), 0, where))


def _hidden_by_layer(layer: Mapping[str, Any], span: tuple[int, int], where: str) -> dict[int, bool]:
    """The frames outside the lifetime of a layer; all frames where the layer is hidden."""
    usual = {"ip": span[0], "op": span[1] + 1}
    first, end = (parsing.finite_number(f"{where}: {name}", layer.get(name, at)) for name, at in usual.items())
    hidden = layer.get("hd") is True
    return {frame: False for frame in range(span[0], span[1] + 1) if hidden or not first <= frame < end}
