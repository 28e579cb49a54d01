"""The open document, `*.roto.json`: read with strict checks, written without loss.

Standard library only. A document is written as the lowest version that can hold it, so that older programs can read
it.

- 1: besides the fields of the specification a shape may carry `taper` ([start, end] share of the length), `visible`
  ({frame: false}) and `interpolation` ({frame: "hold"}); the landmarks `hand` ({frame: names}).
- 2: `interpolation` may be "ease" or "smooth", with `slopes`; `feather` is a line per key, `widths` a profile per key;
  `subtract` marks a hold-out. `layers` are transforms with keys, parents first; a shape names its layer. Every field of
  version 1 keeps its place and its meaning: `feather_px` is the mean of a feather line. `metadata` of the document and
  of a shape hold data that only one format uses, under the name of that format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast, get_args

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import feather_edges
from rotopaint_ai.exchange.limits import (
    FAR_PX,
    check_file,
    check_frames,
    check_metadata,
    check_names,
    check_range,
    check_size,
    refuse_text,
    short_value,
)
from rotopaint_ai.exchange.limits import MOST_WIDTH_PX as MOST_WIDTH_PX
from rotopaint_ai.files import write_parts
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Interpolation,
    Key,
    Landmark,
    LandmarkKeys,
    Points,
    Role,
    RotoDocument,
    RotoShape,
    Slopes,
    Source,
    StrokeWidth,
    Widths,
)

FORMAT: Final = "rotopaint-shapes"
VERSION: Final = 2  # the newest version that is read and written
SUFFIX: Final = ".roto.json"

_TOP = {
    "format",
    "version",
    "width",
    "height",
    "pixel_aspect",
    "fps",
    "first_frame",
    "last_frame",
    "landmarks",
    "shapes",
}
_TOP_2 = _TOP | {"metadata", "layers"}
_SHAPE = {"name", "closed", "role", "width_px", "feather_px", "source", "keys", "taper", "visible", "interpolation"}
_SHAPE_2 = _SHAPE | {"feather", "widths", "slopes", "metadata", "subtract", "layer"}
_LAYER = {"name", "parent", "poses", "track"}
_POSE = {"translate", "rotate", "scale", "pivot"}
_SLOPES = {"leaving", "arriving", "feather_leaving", "feather_arriving"}
_KINDS_1: tuple[str, ...] = ("linear", "hold")
_LANDMARKS = {"names", "keys", "hand"}


def read(path: Path | str) -> RotoDocument:
    """Read a `*.roto.json`. Raises DocumentError naming file, shape, frame and field where something is wrong."""
    path = Path(path)
    try:
        check_file(path)
        text = path.read_text(encoding="utf-8-sig")  # some editors on Windows begin a file with its mark
    except OSError as error:
        raise DocumentError(f"{path.name}: cannot be read ({error.strerror or error}); check the path") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path.name}: cannot be read as text ({error}); check the path") from error
    return loads(text, where=path.name)


def write(path: Path | str, document: RotoDocument) -> None:
    """Write a `*.roto.json` in one step. Raises DocumentError on numbers that are not finite."""
    write_parts(Path(path), _text_pieces(document))


# --- reading ----------------------------------------------------------------------------------------------------------


def loads(text: str, *, where: str = "document") -> RotoDocument:
    """The document in a JSON text; `where` names it in errors. Raises DocumentError."""
    try:
        data = json.loads(
            text,
            parse_constant=lambda name: refuse_text(where, f"holds {name}; numbers must be finite"),
            object_pairs_hook=lambda pairs: _unique_object(pairs, where),
        )
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{where}: is not JSON ({error}); save it again as {SUFFIX}") from error
    data = _need_mapping(data, where, _TOP_2)
    if data.get("format") != FORMAT:
        refuse_text(where, f"format is {data.get('format')!r}; wanted {FORMAT!r}")
    version = data.get("version")
    if version not in (1, VERSION) or isinstance(version, (bool, float)):
        refuse_text(where, f"version is {short_value(version)}; this product reads versions up to {VERSION}: update it")
    _need_mapping(data, where, _TOP if version == 1 else _TOP_2, version)
    width, height = (_need_integer(data.get(name), f"{where}: {name}") for name in ("width", "height"))
    first, last = (_need_integer(data.get(name), f"{where}: {name}") for name in ("first_frame", "last_frame"))
    aspect = _need_number(data.get("pixel_aspect", 1.0), f"{where}: pixel_aspect")
    fps = _need_number(data.get("fps", 24.0), f"{where}: fps")
    if width <= 0 or height <= 0:
        refuse_text(where, f"width x height is {width} x {height}; both must be positive")
    if last < first:
        refuse_text(where, f"last_frame {last} comes before first_frame {first}; swap them")
    check_size(width, height, where)
    check_range(first, last, where)
    if aspect <= 0 or fps <= 0:
        refuse_text(where, f"pixel_aspect is {aspect} and fps {fps}; both must be positive")
    layers = _read_layers(data.get("layers", []), f"{where}: layers")
    shapes = tuple(
        _read_shape(each, f"{where}: shapes[{index}]", version, layers)
        for index, each in enumerate(_list(data.get("shapes"), where, "shapes"))
    )
    _refuse_twice((shape.name for shape in shapes), f"{where}: shapes")
    landmarks = _read_landmarks(data.get("landmarks", {"names": [], "keys": {}}), f"{where}: landmarks")
    found = RotoDocument(width, height, first, last, aspect, fps, landmarks, shapes, data.get("metadata", {}))
    check_frames(found, where)
    check_names(found, where)
    check_metadata((found.metadata, *(shape.metadata for shape in shapes)), where)
    return found


def _read_shape(data: Any, where: str, version: int, layers: Mapping[str, Layer]) -> RotoShape:
    data = _need_mapping(data, where, _SHAPE if version == 1 else _SHAPE_2, version)
    name = _need_text(data.get("name"), f"{where}: name")
    where = f"{where} {short_value(name)}"
    closed = data.get("closed")
    if not isinstance(closed, bool):
        refuse_text(where, f"closed is {closed!r}; wanted true or false")
    role = _need_choice(data.get("role", "matte"), get_args(Role), f"{where}: role")
    width = data.get("width_px")
    feather = _need_number(data.get("feather_px", 0.0), f"{where}: feather_px")
    width = None if width is None else _need_number(width, f"{where}: width_px")
    if (width is not None and width < 0) or feather < 0:
        refuse_text(where, f"width_px is {width} and feather_px {feather}; neither may be negative")
    if max(width or 0.0, feather) > MOST_WIDTH_PX:
        refuse_text(where, f"width_px is {width} and feather_px {feather}; neither may exceed {MOST_WIDTH_PX:,.0f} px")
    keys = _read_keys(data, where, version)
    if "feather" in data:
        feather, keys = _with_feather(data["feather"], keys, f"{where}: feather")
    if "widths" in data:
        keys = _with_widths(data["widths"], keys, f"{where}: widths")
    if "slopes" in data:
        keys = _with_slopes(data["slopes"], keys, f"{where}: slopes")
    return RotoShape(
        name=name,
        closed=closed,
        role=cast(Role, role),
        keys=keys,
        width_px=width,
        feather_px=feather,
        taper=_taper(data.get("taper", [0.0, 0.0]), f"{where}: taper"),
        subtract=_boolean(data.get("subtract", False), f"{where}: subtract"),
        visible={
            frame: _boolean(value, f"{where}: visible: frame {frame}")
            for frame, value in _read_by_frame(data.get("visible", {}), f"{where}: visible").items()
        },
        layer=_find_layer(data.get("layer"), layers, f"{where}: layer"),
        metadata=data.get("metadata", {}),
    )


def _read_layers(data: Any, where: str) -> dict[str, Layer]:
    """Layers by name, parents before children."""
    found: dict[str, Layer] = {}
    for index, each in enumerate(_list(data, where, "the list")):
        here = f"{where}[{index}]"
        each = _need_mapping(each, here, _LAYER)
        name = _need_text(each.get("name"), f"{here}: name")
        _refuse_twice((*found, name), where)
        poses = _read_by_frame(each.get("poses", {}), f"{here}: poses")
        track = _read_by_frame(each.get("track", {}), f"{here}: track")
        found[name] = Layer(
            name,
            {f: _read_pose(poses[f], f"{here}: poses: frame {f}") for f in sorted(poses)},
            {f: _need_numbers(track[f], 9, f"{here}: track: frame {f}") for f in sorted(track)},
            _find_layer(each.get("parent"), found, f"{here}: parent"),
        )
    return found


def _find_layer(name: Any, layers: Mapping[str, Layer], where: str) -> Layer | None:
    if name is not None and (not isinstance(name, str) or name not in layers):
        refuse_text(where, f"is {short_value(name)}; wanted the name of a layer listed before it")
    return None if name is None else layers[name]


def _read_pose(data: Any, where: str) -> LayerPose:
    data = _need_mapping(data, where, _POSE)
    move, scale, pivot = (
        _need_numbers(data.get(name, list(usual)), 2, f"{where}: {name}")
        for name, usual in (("translate", (0.0, 0.0)), ("scale", (1.0, 1.0)), ("pivot", (0.0, 0.0)))
    )
    degrees = _need_number(data.get("rotate", 0.0), f"{where}: rotate")
    return LayerPose(move[0], move[1], degrees, scale[0], scale[1], pivot[0], pivot[1])


def _need_numbers(data: Any, count: int, where: str) -> tuple[float, ...]:
    if not isinstance(data, list) or len(data) != count:
        refuse_text(where, f"is {short_value(data)}; wanted {count} numbers")
    return tuple(_need_number(value, where) for value in data)


def _with_feather(data: Any, keys: Mapping[int, Key], where: str) -> tuple[float, dict[int, Key]]:
    """The uniform feather outside the feather line, and the keys with the feather line."""
    data = _need_mapping(data, where, {"uniform_px", "keys"}, VERSION)
    uniform = _need_number(data.get("uniform_px", 0.0), f"{where}: uniform_px")
    if not 0 <= uniform <= MOST_WIDTH_PX:
        refuse_text(where, f"uniform_px is {uniform}; wanted 0 to {MOST_WIDTH_PX:,.0f} px")
    found = dict(keys)
    for frame, rows in _keyed_frames(data.get("keys"), keys, f"{where}: keys").items():
        found[frame] = replace(found[frame], feather=_rows_of(rows, keys[frame], f"{where}: frame {frame}"))
    return uniform, found


def _with_widths(data: Any, keys: Mapping[int, Key], where: str) -> dict[int, Key]:
    found = dict(keys)
    for frame, rows in _keyed_frames(data, keys, where).items():
        found[frame] = replace(
            found[frame], widths=_read_widths(rows, len(keys[frame].points), f"{where}: frame {frame}")
        )
    return found


def _read_widths(data: Any, count: int, where: str) -> Widths:
    rows = []
    for index, row in enumerate(_list(data, where, "rows")):
        if type(row) is not list or len(row) != 3:
            refuse_text(where, f"point {index} is {short_value(row)}; wanted [left_px, right_px, feather_px]")
        values = [_need_number(value, f"{where}: point {index}") for value in row]
        if not 0 <= min(values) <= max(values) <= MOST_WIDTH_PX:
            refuse_text(
                where, f"point {index} is {short_value(row)}; each must lie between 0 and {MOST_WIDTH_PX:,.0f} px"
            )
        rows.append(StrokeWidth(*values))
    if len(rows) != count:
        refuse_text(where, f"{len(rows)} rows for {count} control points; wanted one each")
    return tuple(rows)


def _with_slopes(data: Any, keys: Mapping[int, Key], where: str) -> dict[int, Key]:
    found = dict(keys)
    for frame, table in _keyed_frames(data, keys, where).items():
        here = f"{where}: frame {frame}"
        table = _need_mapping(table, here, _SLOPES, VERSION)
        rows = {name: _rows_of(each, keys[frame], f"{here}: {name}") for name, each in table.items()}
        if not {"leaving", "arriving"} <= set(rows) or ("feather_leaving" in rows) != ("feather_arriving" in rows):
            refuse_text(here, f"states {', '.join(sorted(rows)) or 'nothing'}; wanted leaving and arriving, in pairs")
        found[frame] = replace(found[frame], slopes=Slopes(**rows))
    return found


def _keyed_frames(data: Any, keys: Mapping[int, Key], where: str) -> dict[int, Any]:
    """A table by frame; every frame in it must have a key."""
    table = _read_by_frame(data, where)
    stray = sorted(set(table) - set(keys))
    if stray:
        refuse_text(where, f"frame {stray[0]} has no key")
    return table


def _rows_of(data: Any, key: Key, where: str) -> Points:
    rows = _read_points(data, where)
    if len(rows) != len(key.points):
        refuse_text(where, f"{len(rows)} rows for {len(key.points)} control points; wanted one each")
    return rows


def _read_keys(data: Mapping[str, Any], where: str, version: int) -> dict[int, Key]:
    sources = _read_by_frame(data.get("source", {}), f"{where}: source")
    kinds = _read_by_frame(data.get("interpolation", {}), f"{where}: interpolation")
    points = _read_by_frame(data.get("keys"), f"{where}: keys")
    for name, table in (("source", sources), ("interpolation", kinds)):
        stray = sorted(set(table) - set(points))
        if stray:
            refuse_text(where, f"{name}: frame {stray[0]} has no key")
    keys: dict[int, Key] = {}
    for frame in sorted(points):
        here = f"{where}: frame {frame}"
        source = _need_choice(sources.get(frame, "model"), get_args(Source), f"{here}: source")
        known = _KINDS_1 if version == 1 else get_args(Interpolation)
        kind = _need_choice(kinds.get(frame, "linear"), known, f"{here}: interpolation")
        keys[frame] = Key(_read_points(points[frame], here), cast(Source, source), cast(Interpolation, kind))
    counts = {len(key.points): frame for frame, key in reversed(keys.items())}
    if len(counts) > 1:
        found = ", ".join(f"{n} at frame {frame}" for n, frame in sorted(counts.items(), key=lambda item: item[1]))
        refuse_text(where, f"control points change in number ({found}); every key needs the same")
    return keys


def _read_points(data: Any, where: str) -> tuple[ControlPoint, ...]:
    points = []
    for index, row in enumerate(_list(data, where, "keys")):
        if type(row) is not list or len(row) != 6:
            refuse_text(where, f"point {index} is {short_value(row)}; wanted [x, y, in_dx, in_dy, out_dx, out_dy]")
        for value in row:
            if type(value) is not float and (type(value) is not int or abs(value) > 1e15):
                refuse_text(where, f"point {index} holds {short_value(value)}; wanted six numbers")
            if not math.isfinite(value):
                refuse_text(where, f"point {index} holds {value}; numbers must be finite")
            if abs(value) > FAR_PX:
                refuse_text(where, f"point {index} holds {value:g}; wanted numbers up to {FAR_PX:,.0f} px")
        points.append(ControlPoint(*map(float, row)))
    if not points:
        refuse_text(where, "has no control point; delete the key or give it points")
    return tuple(points)


def _taper(data: Any, where: str) -> tuple[float, float]:
    if not isinstance(data, list) or len(data) != 2:
        refuse_text(where, f"is {short_value(data)}; wanted [start, end], each a share of the length between 0 and 1")
    start, end = (_need_number(value, where) for value in data)
    if not (0.0 <= start <= 1.0 and 0.0 <= end <= 1.0):
        refuse_text(where, f"is {short_value(data)}; each share must lie between 0 and 1")
    return start, end


def _read_landmarks(data: Any, where: str) -> LandmarkKeys:
    data = _need_mapping(data, where, _LANDMARKS)
    names = tuple(_need_text(name, f"{where}: names") for name in _list(data.get("names", []), where, "names"))
    _refuse_twice(names, f"{where}: names")
    keys = {}
    for frame, rows in sorted(_read_by_frame(data.get("keys", {}), f"{where}: keys").items()):
        here = f"{where}: frame {frame}"
        if not isinstance(rows, list) or len(rows) != len(names):
            got = len(rows) if isinstance(rows, list) else short_value(rows)
            refuse_text(here, f"{got} landmarks; wanted {len(names)}, one for each name (null where it is hidden)")
        keys[frame] = tuple(_read_landmark(row, f"{here}: {name}") for row, name in zip(rows, names, strict=True))
    hand = {}
    for frame, chosen in _read_by_frame(data.get("hand", {}), f"{where}: hand").items():
        chosen = [
            _need_text(name, f"{where}: hand: frame {frame}") for name in _list(chosen, where, f"hand: frame {frame}")
        ]
        stray = [name for name in chosen if name not in names]
        if stray:
            refuse_text(
                where, f"hand: frame {frame} names {short_value(stray[0])}, which is not a landmark of this document"
            )
        hand[frame] = frozenset(chosen)
    return LandmarkKeys(names, keys, hand)


def _read_landmark(row: Any, where: str) -> Landmark | None:
    if row is None:
        return None
    if not isinstance(row, list) or len(row) not in (2, 3):
        refuse_text(where, f"is {short_value(row)}; wanted [x, y, expected_error_px] or null")
    return Landmark(*(_need_number(value, where) for value in row))


# --- checks -----------------------------------------------------------------------------------------------------------


def _unique_object(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """A JSON object without repeated names (of two keys at one frame, one would be lost)."""
    table = dict(pairs)
    if len(table) < len(pairs):
        _refuse_twice((name for name, _ in pairs), where)
    return table


def _need_mapping(value: Any, where: str, known: set[str], version: int = VERSION) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse_text(where, f"is {short_value(value)}; wanted an object")
    stray = sorted(set(value) - known)
    if stray:
        refuse_text(
            where,
            f"field {short_value(stray[0])} is not known in version {version}; this product reads up to {VERSION}",
        )
    return value


def _list(value: Any, where: str, name: str) -> list[Any]:
    if not isinstance(value, list):
        refuse_text(where, f"{name} is {short_value(value)}; wanted a list")
    return value


def _need_text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        refuse_text(where, f"is {short_value(value)}; wanted a name")
    return value


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        refuse_text(where, f"is {short_value(value)}; wanted true or false")
    return value


def _need_integer(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        refuse_text(where, f"is {short_value(value)}; wanted a whole number")
    return value


def _need_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e15 or not math.isfinite(value):
        refuse_text(where, f"is {short_value(value)}; wanted a finite number")
    return float(value)


def _need_choice(value: Any, choices: tuple[str, ...], where: str) -> str:
    if not isinstance(value, str) or value not in choices:
        refuse_text(where, f"is {short_value(value)}; wanted one of {', '.join(choices)}")
    return value


def _refuse_twice(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            refuse_text(where, f"the name {short_value(name)} occurs twice; rename one")
        seen.add(name)


def _read_by_frame(value: Any, where: str) -> dict[int, Any]:
    """A table by frame. Frames are whole numbers written as text, `1001`, each once."""
    if not isinstance(value, dict):
        refuse_text(where, f"is {short_value(value)}; wanted an object with frame numbers as names")
    table: dict[int, Any] = {}
    for text, each in value.items():
        try:
            frame = int(text)
        except ValueError:
            refuse_text(where, f"{short_value(text)} is not a frame number")
        if str(frame) != text:
            refuse_text(where, f"frame {short_value(text)} must be written {frame}")
        table[frame] = each
    return table


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """The document as JSON text, one key per line; `loads` reads it back unchanged. Raises DocumentError."""
    return "".join(_text_pieces(document))


def _text_pieces(document: RotoDocument) -> Iterator[str]:
    """The text in small pieces of about a key each, because the text of a long shot is large. Raises DocumentError."""
    _refuse_twice((shape.name for shape in document.shapes), "document: shapes")
    check_frames(document, "document")
    check_metadata((document.metadata, *(shape.metadata for shape in document.shapes)), "document")
    head = {
        "format": FORMAT,
        "version": version_of(document),
        "width": document.width,
        "height": document.height,
        "pixel_aspect": document.pixel_aspect,
        "fps": document.fps,
        "first_frame": document.first_frame,
        "last_frame": document.last_frame,
    }
    yield "{\n" + "".join(f" {_json(name)}: {_json(value)},\n" for name, value in head.items())
    yield ' "landmarks": '
    yield from _landmarks_pieces(document.landmarks)
    if document.layers:
        yield f',\n "layers": {_json([_layer_fields(layer) for layer in document.layers])}'
    yield ',\n "shapes": [' + ("\n" if document.shapes else "]")
    for number, shape in enumerate(document.shapes):
        yield ",\n  " if number else "  "
        yield from _shape_pieces(shape)
    yield "\n ]" if document.shapes else ""
    yield f',\n "metadata": {_json(document.metadata)}' if document.metadata else ""
    yield "\n}\n"


def version_of(document: RotoDocument) -> int:
    """The lowest version that can hold a document."""
    is_more = document.metadata or any(shape.metadata or shape.subtract or shape.layer for shape in document.shapes)
    return 2 if is_more or any(_is_of_2(key) for shape in document.shapes for key in shape.keys.values()) else 1


def _is_of_2(key: Key) -> bool:
    return bool(key.feather or key.widths) or key.interpolation in ("ease", "smooth")


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise DocumentError(
            f"document: {short_value(value)} cannot be written ({error}); numbers must be finite"
        ) from error


def _table_pieces(rows: Mapping[int, Any], indent: str, shown: Callable[[Any], Any] = lambda row: row) -> Iterator[str]:
    if not rows:
        yield "{}"
        return
    for number, frame in enumerate(sorted(rows)):
        yield ",\n" if number else "{\n"
        yield f'{indent} "{frame}": {_json(shown(rows[frame]))}'
    yield "\n" + indent + "}"


def _layer_fields(layer: Layer) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": layer.name}
    if layer.parent is not None:
        fields["parent"] = layer.parent.name
    if layer.poses:
        fields["poses"] = {
            str(frame): {"translate": pose[:2], "rotate": pose.degrees, "scale": pose[3:5], "pivot": pose[5:]}
            for frame, pose in sorted(layer.poses.items())
        }
    if layer.track:
        fields["track"] = {str(frame): row for frame, row in sorted(layer.track.items())}
    return fields


def _landmarks_pieces(landmarks: LandmarkKeys) -> Iterator[str]:
    yield f'{{\n  "names": {_json(landmarks.names)},\n  "keys": '
    yield from _table_pieces(landmarks.keys, "  ")
    if landmarks.hand:
        yield ',\n  "hand": '
        yield from _table_pieces(landmarks.hand, "  ", sorted)
    yield "\n }"


def _shape_pieces(shape: RotoShape) -> Iterator[str]:
    counts = {len(key.points) for key in shape.keys.values()}
    if len(counts) > 1 or 0 in counts:
        raise DocumentError(
            f"shape '{shape.name}': keys with {sorted(counts)} control points; all need the same number"
        )
    fields: dict[str, str] = {"name": _json(shape.name), "closed": _json(shape.closed), "role": _json(shape.role)}
    if shape.width_px is not None:
        fields["width_px"] = _json(shape.width_px)
    fields["feather_px"] = _json(feather_edges.mean_px(shape))
    if tuple(shape.taper) != (0.0, 0.0):
        fields["taper"] = _json(list(shape.taper))
    if shape.subtract:
        fields["subtract"] = _json(True)
    if shape.layer is not None:
        fields["layer"] = _json(shape.layer.name)
    if shape.visible:
        fields["visible"] = _json({str(frame): shape.visible[frame] for frame in sorted(shape.visible)})
    frames = shape.frames
    fields["source"] = _json({str(frame): shape.keys[frame].source for frame in frames})
    kinds = {str(frame): shape.keys[frame].interpolation for frame in frames}
    if any(kind != "linear" for kind in kinds.values()):
        fields["interpolation"] = _json({frame: kind for frame, kind in kinds.items() if kind != "linear"})
    yield "{" + "".join(f'"{name}": {text},\n   ' for name, text in fields.items()) + '"keys": '
    yield from _table_pieces(shape.keys, "   ", lambda key: key.points)
    yield from _extra_pieces(shape)
    yield f',\n   "metadata": {_json(shape.metadata)}' if shape.metadata else ""
    yield "}"


def _extra_pieces(shape: RotoShape) -> Iterator[str]:
    """The fields that version 2 adds to a shape's keys, as pieces of text."""
    keys = shape.keys
    feathered = {frame: key.feather for frame, key in keys.items() if key.feather}
    if feathered:
        yield f',\n   "feather": {{"uniform_px": {_json(shape.feather_px)}, "keys": '
        yield from _table_pieces(feathered, "   ")
        yield "}"
    widths = {frame: key.widths for frame, key in keys.items() if key.widths}
    if widths:
        yield ',\n   "widths": '
        yield from _table_pieces(widths, "   ")
    slopes = {frame: key.slopes for frame, key in keys.items() if key.slopes and key.interpolation == "smooth"}
    if slopes:
        yield ',\n   "slopes": '
        yield from _table_pieces(
            slopes, "   ", lambda each: {name: rows for name, rows in asdict(each).items() if rows}
        )
