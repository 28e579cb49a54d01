"""Conversion of a state to a table of small values, and of each value to bytes, as the project file stores them.

A state is a set of tracks. A track maps frames to frozen values: `("key", "nose_seam")` holds the keys of a shape,
`("crop", "")` the crop boxes. Values without a frame use frame 0. Two states are compared by identity first, so that an
edit writes only the values that it changed. Tracks of the models' own document begin with `model.`; tracks of a face
that is put aside begin with `NAME/`.

Numbers are little-endian doubles, so that every number is read back bit for bit.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, get_args

from rotopaint_ai import fills, spreads
from rotopaint_ai.project.state import MARKS, CropBox, Mark, OtherFace, SeamSettings, Spread, State
from rotopaint_ai.seams import strokes
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Interpolation,
    Key,
    Landmark,
    LandmarkKeys,
    Metadata,
    RotoDocument,
    RotoShape,
    Slopes,
    Source,
    StrokeWidth,
)

MODEL: Final = "model."
_SOURCES: Final = get_args(Source)
_KINDS: Final = get_args(Interpolation)
_POINT = struct.Struct("<6d")
_KIND, _FEATHER, _SLOPED, _FEATHER_SLOPED, _WIDE = 0x0F, 0x10, 0x20, 0x40, 0x80  # bits of a key's second byte
_LANDMARK = struct.Struct("<3d")
_POSE, _PLANE = struct.Struct("<7d"), struct.Struct("<9d")


class Track(NamedTuple):
    """The address of a track: its kind, and the name of the shape where it belongs to one."""

    kind: str
    name: str = ""


class TrackPlace(NamedTuple):
    """One value's address in a state."""

    track: Track
    frame: int


Tracks = Mapping[Track, Mapping[int, Any]]


@dataclass(frozen=True, slots=True)
class DocumentHead:
    """A document without the keys of shapes and landmarks."""

    width: int
    height: int
    first_frame: int
    last_frame: int
    pixel_aspect: float
    fps: float
    landmarks: tuple[str, ...]
    shapes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapeHead:
    """A shape without its keys."""

    closed: bool
    role: str
    width_px: float | None
    feather_px: float
    taper: tuple[float, float]
    subtract: bool = False
    layer: str | None = None


# --- states as tracks -------------------------------------------------------------------------------------------------


def tracks_of(state: State) -> dict[Track, Mapping[int, Any]]:
    """All tracks of a state."""
    tracks: dict[Track, Mapping[int, Any]] = {
        Track("crop"): state.crops,
        Track("mark"): state.marks,
        Track("note"): state.notes,
        Track("spread"): dict(enumerate(state.spreads)),
        Track("stroke"): state.strokes,
    }
    if state.face:
        tracks[Track("face")] = {0: state.face}
    for name, face in state.faces.items():
        tracks |= _tracks_of_face(face, name)
    tracks |= {Track("seam", name): {0: settings} for name, settings in state.seams.items()}
    tracks |= {Track("name", shape): {0: given} for shape, given in state.names.items()}
    for prefix, document in (("", state.document), (MODEL, state.predicted)):
        if document is not None:
            tracks |= _tracks_of_document(document, prefix)
    return tracks


def state_of(tracks: Tracks) -> State:
    """The state made of these tracks. Raises KeyError or ValueError where the tracks contradict each other."""
    carried = tracks.get(Track("spread"), {})
    return State(
        document=_document_of(tracks, ""),
        crops=dict(tracks.get(Track("crop"), {})),
        predicted=_document_of(tracks, MODEL),
        marks=dict(tracks.get(Track("mark"), {})),
        notes=dict(tracks.get(Track("note"), {})),
        seams={track.name: values[0] for track, values in tracks.items() if track.kind == "seam" and values},
        spreads=tuple(carried[index] for index in sorted(carried)),
        strokes=dict(tracks.get(Track("stroke"), {})),
        names={track.name: values[0] for track, values in sorted(tracks.items()) if track.kind == "name" and values},
        face=tracks.get(Track("face"), {}).get(0, ""),
        faces={
            track.name: _face_of(tracks, track.name) for track, rows in tracks.items() if track.kind == "aside" and rows
        },
    )


def changes(before: State, after: State) -> Iterator[tuple[TrackPlace, Any]]:
    """Places whose value differs, with the new value, or None where the value was removed."""
    old, new = tracks_of(before), tracks_of(after)
    for track in [*new, *(track for track in old if track not in new)]:
        was, is_now = old.get(track, {}), new.get(track, {})
        if was is is_now:
            continue
        for frame, value in is_now.items():
            known = was.get(frame)
            if known is not value and known != value:
                yield TrackPlace(track, frame), value
        for frame in was:
            if frame not in is_now:
                yield TrackPlace(track, frame), None


def apply_changes(state: State, new: Mapping[TrackPlace, Any]) -> State:
    """The state with new values at these places; None removes a value. Unchanged values are shared with `state`."""
    tracks = tracks_of(state)
    own: set[Track] = set()
    for (track, frame), value in new.items():
        if track not in own:
            tracks[track] = dict(tracks.get(track, {}))
            own.add(track)
        values: Any = tracks[track]
        if value is None:
            values.pop(frame, None)
        else:
            values[frame] = value
    for track in own:
        tracks[track] = dict(sorted(tracks[track].items()))
    made = state_of(tracks)
    has_predictions = any(track.kind.startswith(MODEL) for track in own)
    return made if has_predictions else replace(made, predicted=state.predicted)


def _tracks_of_face(face: OtherFace, name: str) -> dict[Track, Mapping[int, Any]]:
    tracks: dict[Track, Mapping[int, Any]] = {
        Track("aside", name): {0: [face.pack, dict(face.aside)]},
        Track(f"{name}/crop"): face.crops,
        Track(f"{name}/spread"): dict(enumerate(face.spreads)),
    }
    for prefix, document in ((f"{name}/", face.document), (f"{name}/{MODEL}", face.predicted)):
        if document is not None:
            tracks |= _tracks_of_document(document, prefix)
    return tracks


def _face_of(tracks: Tracks, name: str) -> OtherFace:
    (pack, aside), carried = tracks[Track("aside", name)][0], tracks.get(Track(f"{name}/spread"), {})
    return OtherFace(
        None if pack is None else str(pack),
        {str(own): str(there) for own, there in aside.items()},
        dict(tracks.get(Track(f"{name}/crop"), {})),
        _document_of(tracks, f"{name}/"),
        _document_of(tracks, f"{name}/{MODEL}"),
        tuple(carried[index] for index in sorted(carried)),
    )


def _tracks_of_document(document: RotoDocument, prefix: str) -> dict[Track, Mapping[int, Any]]:
    head = DocumentHead(
        document.width,
        document.height,
        document.first_frame,
        document.last_frame,
        document.pixel_aspect,
        document.fps,
        tuple(document.landmarks.names),
        tuple(shape.name for shape in document.shapes),
    )
    tracks: dict[Track, Mapping[int, Any]] = {
        Track(f"{prefix}head"): {0: head},
        Track(f"{prefix}landmarks"): document.landmarks.keys,
        Track(f"{prefix}hand"): document.landmarks.hand,
    }
    for shape in document.shapes:
        layer = None if shape.layer is None else shape.layer.name
        looks = shape.width_px, shape.feather_px, shape.taper
        facts = ShapeHead(shape.closed, shape.role, *looks, shape.subtract, layer)
        tracks[Track(f"{prefix}shape", shape.name)] = {0: facts}
        tracks[Track(f"{prefix}key", shape.name)] = shape.keys
        tracks[Track(f"{prefix}visible", shape.name)] = shape.visible
        if shape.metadata:
            tracks[Track(f"{prefix}metadata", shape.name)] = {0: shape.metadata}
    for place, each in enumerate(document.layers):
        parent = None if each.parent is None else each.parent.name
        tracks[Track(f"{prefix}layer", each.name)] = {0: [place, parent]}
        tracks[Track(f"{prefix}pose", each.name)] = each.poses
        tracks[Track(f"{prefix}plane", each.name)] = each.track
    if document.metadata:
        tracks[Track(f"{prefix}metadata")] = {0: document.metadata}
    return tracks


def _document_of(tracks: Tracks, prefix: str) -> RotoDocument | None:
    heads = tracks.get(Track(f"{prefix}head"))
    if not heads:
        return None
    head: DocumentHead = heads[0]
    layers = _layers_by_name(tracks, prefix)
    return RotoDocument(
        width=head.width,
        height=head.height,
        first_frame=head.first_frame,
        last_frame=head.last_frame,
        pixel_aspect=head.pixel_aspect,
        fps=head.fps,
        landmarks=LandmarkKeys(
            head.landmarks, tracks.get(Track(f"{prefix}landmarks"), {}), tracks.get(Track(f"{prefix}hand"), {})
        ),
        shapes=tuple(_shape_of(tracks, prefix, name, layers) for name in head.shapes),
        metadata=_metadata_of(tracks, prefix),
    )


def _metadata_of(tracks: Tracks, prefix: str, shape: str = "") -> Metadata:
    found: Metadata = tracks.get(Track(f"{prefix}metadata", shape), {}).get(0, {})
    return found


def _layers_by_name(tracks: Tracks, prefix: str) -> dict[str, Layer]:
    heads = {track.name: rows[0] for track, rows in tracks.items() if track.kind == f"{prefix}layer" and rows}
    layers: dict[str, Layer] = {}
    for name, (_, parent) in sorted(heads.items(), key=lambda item: item[1][0]):
        poses, track = (tracks.get(Track(f"{prefix}{kind}", name), {}) for kind in ("pose", "plane"))
        layers[name] = Layer(name, poses, track, None if parent is None else layers[parent])
    return layers


def _shape_of(tracks: Tracks, prefix: str, name: str, layers: Mapping[str, Layer]) -> RotoShape:
    facts: ShapeHead = tracks[Track(f"{prefix}shape", name)][0]
    return RotoShape(
        name=name,
        closed=facts.closed,
        role="seam" if facts.role == "seam" else "matte",
        keys=tracks.get(Track(f"{prefix}key", name), {}),
        width_px=facts.width_px,
        feather_px=facts.feather_px,
        taper=facts.taper,
        visible=tracks.get(Track(f"{prefix}visible", name), {}),
        subtract=facts.subtract,
        layer=None if facts.layer is None else layers[facts.layer],
        metadata=_metadata_of(tracks, prefix, name),
    )


# --- values as bytes --------------------------------------------------------------------------------------------------


def pack(kind: str, value: Any) -> bytes:
    """A value of a track of this kind as bytes."""
    return _code_of(kind).pack(value)


def unpack(kind: str, data: bytes) -> Any:
    """The value that `pack` made. Raises ValueError, KeyError or struct.error on anything else."""
    return _code_of(kind).unpack(data)


def _code_of(kind: str) -> _Code:
    return _CODES[kind.rpartition("/")[2].removeprefix(MODEL)]


def _pack_key(key: Key) -> bytes:
    """Two bytes, then rows of doubles. The high bits of the second byte tell which rows follow those of the points."""
    rows, flags = [key.points], 0
    if key.feather:
        rows, flags = [*rows, key.feather], flags | _FEATHER
    if key.slopes is not None:
        rows, flags = [*rows, key.slopes.leaving, key.slopes.arriving], flags | _SLOPED
        if key.slopes.feather_leaving:
            rows = [*rows, key.slopes.feather_leaving, key.slopes.feather_arriving]
            flags |= _FEATHER_SLOPED
    head = bytes((_SOURCES.index(key.source), _KINDS.index(key.interpolation) | flags | (_WIDE if key.widths else 0)))
    body = b"".join([_POINT.pack(*point) for each in rows for point in each])
    return head + body + b"".join([_LANDMARK.pack(*width) for width in key.widths])


_point = partial(
    tuple.__new__, ControlPoint
)  # as ControlPoint._make, without a Python call for each of a million points


def _unpack_key(data: bytes) -> Key:
    if len(data) < 3:
        raise ValueError("a key without points")
    flags = data[1]
    source, kind = _SOURCES[data[0]], _KINDS[flags & _KIND]
    if flags == flags & _KIND:
        return Key(tuple(map(_point, _POINT.iter_unpack(memoryview(data)[2:]))), source, kind)
    n_rows = 1 + bool(flags & _FEATHER) + 2 * bool(flags & _SLOPED) + 2 * bool(flags & _FEATHER_SLOPED)
    count, rest = divmod(len(data) - 2, n_rows * _POINT.size + bool(flags & _WIDE) * _LANDMARK.size)
    if rest or not count:
        raise ValueError("a key with an incomplete row")
    end = 2 + n_rows * count * _POINT.size
    rows = tuple(map(_point, _POINT.iter_unpack(memoryview(data)[2:end])))
    parts = [rows[at : at + count] for at in range(0, len(rows), count)]
    points = parts.pop(0)
    feather = parts.pop(0) if flags & _FEATHER else ()
    slopes = Slopes(*parts) if flags & _SLOPED else None
    widths = tuple(StrokeWidth(*row) for row in _LANDMARK.iter_unpack(memoryview(data)[end:]))
    return Key(points, source, kind, feather, widths, slopes)


def _pack_landmarks(row: tuple[Landmark | None, ...]) -> bytes:
    hidden = (math.nan, 0.0, 0.0)
    return b"".join([_LANDMARK.pack(*(hidden if landmark is None else landmark)) for landmark in row])


def _unpack_landmarks(data: bytes) -> tuple[Landmark | None, ...]:
    return tuple(None if row[0] != row[0] else Landmark(*row) for row in _LANDMARK.iter_unpack(data))


def _pack_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()


def _read_json(data: bytes, *kinds: type) -> Any:
    """A JSON value, which must be of one of these types and hold only valid text and numbers. Raises ValueError."""
    value = json.loads(data)
    if type(value) not in kinds:
        raise ValueError(f"{str(value)[:40]!r} is of a wrong type")
    _pack_json(value)  # lone surrogates and NaN cannot be written
    return value


def _unpack_text(data: bytes) -> str:
    return str(_read_json(data, str))


def _unpack_mark(data: bytes) -> Mark:
    mark = _read_json(data, str)
    return MARKS[MARKS.index(mark)]


def _unpack_names(data: bytes) -> frozenset[str]:
    return frozenset(map(_name, _read_json(data, list)))


def _unpack_layer(data: bytes) -> list[Any]:
    place, parent = _read_json(data, list)
    return [_whole(place), None if parent is None else _name(parent)]


def _unpack_aside(data: bytes) -> list[Any]:
    pack, aside = _read_json(data, list)
    return [None if pack is None else _name(pack), {_name(own): _name(there) for own, there in aside.items()}]


def _name(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{str(value)[:40]!r} is not a name")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{str(value)[:40]!r} is not an integer")
    return value


def _unpack_settings(data: bytes) -> SeamSettings:
    fields = _read_json(data, dict)
    _name(fields.get("method", fills.DEFAULT))
    taper, profile = fields.pop("taper", None), fields.pop("profile", None)
    if type(fields.get("hold_out", True)) is not bool:
        raise ValueError(f"hold_out is {str(fields['hold_out'])[:40]!r}; wanted true or false")
    return SeamSettings(
        **fields,
        taper=None if taper is None else tuple(taper),
        profile=None if profile is None else tuple(tuple(row) for row in profile),
    )


def _pack_settings(settings: SeamSettings) -> bytes:
    """Settings as bytes. An unset profile and the usual hold-out are left out, so that older programs can read the
    rest."""
    fields = asdict(settings)
    usual = {"profile": None, "hold_out": True}
    return _pack_json({name: each for name, each in fields.items() if name not in usual or each != usual[name]})


def _unpack_head(data: bytes) -> DocumentHead:
    fields = _read_json(data, dict)
    return DocumentHead(**{**fields, "landmarks": tuple(fields["landmarks"]), "shapes": tuple(fields["shapes"])})


def _pack_shape(facts: ShapeHead) -> bytes:
    """A shape's head as bytes. Fields with their default are left out, so that older programs can read the rest."""
    return _pack_json({name: each for name, each in asdict(facts).items() if each or name not in ("subtract", "layer")})


def _unpack_shape(data: bytes) -> ShapeHead:
    fields = _read_json(data, dict)
    return ShapeHead(**{**fields, "taper": tuple(fields["taper"])})


def _unpack_spread(data: bytes) -> Spread:
    fields = _read_json(data, dict)
    frame, first, last = (_whole(fields[name]) for name in ("frame", "first", "last"))
    way = _name(fields.get("way", spreads.RANGE))  # older projects have only one way to spread
    return Spread(frame, first, last, frozenset(map(_name, fields["shapes"])), way)


def _unpack_strokes(data: bytes) -> strokes.Strokes:
    return tuple(map(strokes.from_json, _read_json(data, list)))


class _Code(NamedTuple):
    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


def _pack_fields(value: Any) -> bytes:
    return _pack_json(asdict(value))


_CODES: Final[Mapping[str, _Code]] = {
    "head": _Code(_pack_fields, _unpack_head),
    "shape": _Code(_pack_shape, _unpack_shape),
    "key": _Code(_pack_key, _unpack_key),
    "visible": _Code(_pack_json, lambda data: bool(_read_json(data, bool))),
    "landmarks": _Code(_pack_landmarks, _unpack_landmarks),
    "hand": _Code(lambda names: _pack_json(sorted(names)), _unpack_names),
    "crop": _Code(
        lambda box: struct.pack("<4d", box.x, box.y, box.width, box.height),
        lambda data: CropBox(*struct.unpack("<4d", data)),
    ),
    "mark": _Code(_pack_json, _unpack_mark),
    "note": _Code(_pack_json, _unpack_text),
    "layer": _Code(_pack_json, _unpack_layer),
    "pose": _Code(lambda pose: _POSE.pack(*pose), lambda data: LayerPose(*_POSE.unpack(data))),
    "plane": _Code(lambda row: _PLANE.pack(*row), _PLANE.unpack),
    "metadata": _Code(_pack_json, lambda data: _read_json(data, dict)),
    "name": _Code(_pack_json, _unpack_text),
    "face": _Code(_pack_json, _unpack_text),
    "aside": _Code(_pack_json, _unpack_aside),
    "seam": _Code(_pack_settings, _unpack_settings),
    "spread": _Code(lambda s: _pack_json({**asdict(s), "shapes": sorted(s.shapes)}), _unpack_spread),
    "stroke": _Code(lambda row: _pack_json([strokes.to_json(stroke) for stroke in row]), _unpack_strokes),
}
