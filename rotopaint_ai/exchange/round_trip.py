"""The self-check of every export: the written file is read back, drawn and compared with its source.

Convention: `meant` is the source, `found` the result of the format's own reader; distances in pixels of the plate.
Differences in features that a format cannot hold (`features.Feature`) are ignored. Every other difference is a fault,
described in one line. Needs numpy; the Python of a host such as Nuke uses `nuke.curve_difference` instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.diagnosis import diagnose
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.linear_keys import eased_frames
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.shapes import bezier, samples
from rotopaint_ai.shapes.bake import line_at
from rotopaint_ai.shapes.rasterise import Region, matte
from rotopaint_ai.shapes.roto import (
    DEFAULT_WIDTH_PX,
    ControlPoint,
    Key,
    Points,
    RotoDocument,
    RotoShape,
    StrokeWidth,
    Widths,
)

LIMIT_PX: Final = 0.02  # goal G8
LIMIT_MATTE: Final = 0.01  # share of a matte's area, for formats that keep everything a matte depends on
MOST_FRAMES: Final = 400  # number of frames compared where a format sets its own keys
DRAWN_FRAMES: Final = 3  # frames drawn of each shape, plus the worst
SAME_PX: Final = 1e-6  # with numbers this close, mattes differ by less than a millionth of their area
DRAWN_PX: Final = 400.0  # larger shapes are scaled down to this size
DRAWN_FEATHER_PX: Final = 12.0
_MATTE: Final[frozenset[Feature]] = frozenset(("feather", "width", "taper", "tangents", "points", "visibility", "open"))


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of reading a file back.

    `max_distance_px` is the largest distance between curves over all frames. `matte_difference` is the largest
    difference of a drawn frame as a share of the matte's area (at least 1 px). `faults` lists unexpected differences.
    """

    n_shapes: int = 0
    n_keys: int = 0
    n_drawn: int = 0
    max_distance_px: float = 0.0
    matte_difference: float = 0.0
    faults: tuple[str, ...] = ()

    def require(self, where: str) -> Proof:
        """The proof itself. Raises DocumentError, which names the first faults and their number."""
        if self.faults:
            more = f" (and {len(self.faults) - 2} more)" if len(self.faults) > 2 else ""
            raise DocumentError(
                f"{where}: the file read back differs from its source: {'; '.join(self.faults[:2])}{more}"
            )
        return self

    @classmethod
    def joined(cls, parts: Iterable[Proof]) -> Proof:
        """One proof from several proofs of different shapes."""
        each = list(parts)
        return cls(
            sum(part.n_shapes for part in each),
            sum(part.n_keys for part in each),
            sum(part.n_drawn for part in each),
            max((part.max_distance_px for part in each), default=0.0),
            max((part.matte_difference for part in each), default=0.0),
            tuple(fault for part in each for fault in part.faults),
        )


def compare(
    meant: RotoDocument,
    found: RotoDocument,
    *,
    loses: Collection[Feature] = (),
    names: Mapping[str, str] | None = None,
    limit_px: float = LIMIT_PX,
    limit_matte: float = LIMIT_MATTE,
    whole: RotoDocument | None = None,
) -> Proof:
    """Compare two documents over all frames of the first.

    `loses` are the features that the format does not keep; differences in them are ignored. `names` maps the names of
    the first document's shapes to those of the second. Curves may be `limit_px` apart, mattes `limit_matte` of their
    area. The matte limit applies only to formats that keep all that a matte depends on; it is always measured.
    `whole` is the document before it was reduced to what the format holds; its mattes are measured, too.
    """
    pairs = _pairs(meant, found, names)
    faults = [*_document_faults(meant, found, loses), *_list_faults(pairs, meant, found, loses)]
    parts = [_shape_proof(a, b, meant, loses, limit_px, limit_matte) for a, b in pairs if b is not None]
    drawn = () if whole is None else _drawn_differences(_pairs(whole, found, names), whole)
    return Proof.joined([Proof(matte_difference=max(drawn, default=0.0), faults=tuple(faults)), *parts])


def _pairs(
    meant: RotoDocument, found: RotoDocument, names: Mapping[str, str] | None
) -> list[tuple[RotoShape, RotoShape | None]]:
    """Each shape and the one that was read back for it."""
    there, called = {shape.name: shape for shape in found.shapes}, names or {}
    return [(shape, there.get(called.get(shape.name, shape.name))) for shape in meant.shapes]


def _drawn_differences(pairs: Iterable[tuple[RotoShape, RotoShape | None]], meant: RotoDocument) -> Iterator[float]:
    """The differences of the shapes' mattes, drawn on a few of their keys."""
    for a, b in pairs:
        if a.keys and b is not None and b.keys:
            yield from (_matte_difference(a, b, meant, frame) for frame in _drawn_frames(a, a.frames, ()))


# --- documents --------------------------------------------------------------------------------------------------------


def _document_faults(meant: RotoDocument, found: RotoDocument, loses: Collection[Feature]) -> list[str]:
    properties: tuple[tuple[Feature, str, object, object], ...] = (
        ("size", "size", (meant.width, meant.height), (found.width, found.height)),
        ("aspect", "pixel aspect", meant.pixel_aspect, found.pixel_aspect),
        ("fps", "frame rate", meant.fps, found.fps),
        ("range", "frames", _frame_span(meant, meant), _frame_span(found, meant)),
        ("landmarks", "landmarks", len(meant.landmarks.keys), len(found.landmarks.keys)),
    )
    return [
        f"{name} {b}, should be {a}"
        for feature, name, a, b in properties
        if feature not in loses and not _are_equal(a, b)
    ]


def _frame_span(document: RotoDocument, meant: RotoDocument) -> tuple[int, int] | None:
    """First and last frame including keys outside the range; None without keys, as most files then state no range."""
    if not any(shape.keys for shape in meant.shapes):
        return None
    keyed = [frame for shape in document.shapes for frame in shape.keys]
    return min([document.first_frame, *keyed]), max([document.last_frame, *keyed])


def _are_equal(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-4 * max(abs(a), 1.0)
    return a == b


def _is_seen(shape: RotoShape, meant: RotoDocument) -> bool:
    return any(shape.is_visible(frame) for frame in range(meant.first_frame, meant.last_frame + 1))


def _list_faults(
    pairs: Sequence[tuple[RotoShape, RotoShape | None]],
    meant: RotoDocument,
    found: RotoDocument,
    loses: Collection[Feature],
) -> list[str]:
    """Faults of the list of shapes: missing shapes, extra shapes, another order."""
    needed = [a for a, b in pairs if b is None and a.keys and ("visibility" not in loses or _is_seen(a, meant))]
    faults = [f"shape '{a.name}' is missing" for a in needed]
    matched = [b.name for _, b in pairs if b is not None]
    extra = [shape.name for shape in found.shapes if shape.name not in set(matched)]
    faults += [f"shape '{name}' is not in the source" for name in extra]
    order = [shape.name for shape in found.shapes if shape.name in set(matched)]
    if "order" not in loses and order not in (matched, _together(matched)):
        faults.append("shapes are in another order")
    return faults


def _together(names: Sequence[str]) -> list[str]:
    """The names in the order of a file that nests layers: each layer's names, `layer/name`, stand where its first one
    does."""
    places: dict[str, int] = {}
    for at, name in enumerate(names):
        parts = name.split("/")
        for depth in range(1, len(parts)):
            places.setdefault("/".join(parts[:depth]), at)

    def place(at: int) -> list[int]:
        parts = names[at].split("/")
        return [*(places["/".join(parts[:depth])] for depth in range(1, len(parts))), at]

    return [names[at] for at in sorted(range(len(names)), key=place)]


# --- shapes -----------------------------------------------------------------------------------------------------------


def _shape_proof(
    a: RotoShape, b: RotoShape, meant: RotoDocument, loses: Collection[Feature], limit_px: float, limit_matte: float
) -> Proof:
    faults = _looks(a, b, meant, loses)
    if "feather" not in loses and a.has_feather_line != b.has_feather_line:
        faults.append(f"shape '{a.name}': {'lost its' if a.has_feather_line else 'got a'} feather line")
    if not a.keys or not b.keys:
        faults += [f"shape '{a.name}' has {len(b.keys)} keys, should have {len(a.keys)}"] if a.keys or b.keys else []
        return Proof(1, len(b.keys), faults=tuple(faults))
    frames = _frames_to_compare(a, b, meant, loses)
    gaps = _curve_gaps(a, b, frames, loses)
    away = max([*gaps, *(_feather_gaps(a, b, frames) if "feather" not in loses else ())], default=0.0)
    if not away <= limit_px:
        at = frames[int(np.argmax(gaps))]
        why = diagnose(a, b, meant, frames) if max(gaps) > limit_px else "its feather line differs"
        why = why or "curves differ"
        faults.append(f"shape '{a.name}' is {away:.2f} px off at frame {at}: {why}")
    drawn = [_matte_difference(a, b, meant, frame) for frame in _drawn_frames(a, frames, gaps)]
    differs = max(drawn, default=0.0)
    if differs > limit_matte and not faults and not _MATTE & set(loses):
        faults.append(f"shape '{a.name}': its matte differs by {differs:.1%} of its area")
    return Proof(1, len(b.keys), len(drawn), away, differs, tuple(faults))


def _looks(a: RotoShape, b: RotoShape, meant: RotoDocument, loses: Collection[Feature]) -> list[str]:
    """Faults of a shape besides its curve."""
    width = DEFAULT_WIDTH_PX if a.width_px is None else a.width_px
    other = DEFAULT_WIDTH_PX if b.width_px is None else b.width_px
    wanted: tuple[tuple[Feature, str, object, object], ...] = (
        ("open", "closed", a.closed, b.closed),
        ("points", "control points", a.n_points, b.n_points),
        ("feather", "feather", float(a.feather_px), float(b.feather_px)),
        ("width", "width", 0.0 if a.closed else float(width), 0.0 if a.closed else float(other)),
        ("taper", "taper", tuple(a.taper), tuple(b.taper)),
        ("roles", "role", a.role, b.role),
    )
    faults = [
        f"shape '{a.name}': {what} {_plain_number(y)}, should be {_plain_number(x)}"
        for feature, what, x, y in wanted
        if feature not in loses and not _are_equal(x, y)
    ]
    return faults + [f"shape '{a.name}': {each}" for each in _time_faults(a, b, meant, loses)]


def _plain_number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _time_faults(a: RotoShape, b: RotoShape, meant: RotoDocument, loses: Collection[Feature]) -> list[str]:
    faults = []
    if "keys" not in loses and a.frames != b.frames:
        gone = [f for f in a.frames if f not in b.keys and not _is_doubled(a, f)]
        new = [f for f in b.frames if f not in a.keys and not _is_doubled(b, f)]
        faults += [f"keys at {_first_few(gone)} are missing"] if gone else []
        faults += [f"keys at {_first_few(new)} are not in the source"] if new else []
    if "holds" not in loses and "keys" not in loses:
        faults += [f"frame {f} no longer holds" for f in _hold_keys(a) - _hold_keys(b) if f in b.keys][:1]
        held = [
            f for f in _hold_keys(b) - _hold_keys(a) if f in a.keys and not (f + 1 in a.keys and _is_doubled(a, f + 1))
        ]
        faults += [f"frame {f} holds, but not in the source" for f in held][:1]
    if "sources" not in loses:
        faults += [
            f"key {f} has another provenance" for f in a.frames if f in b.keys and a.keys[f].source != b.keys[f].source
        ][:1]
    if "subtract" not in loses and a.subtract != b.subtract:
        faults.append("holds out" + (" no longer" if a.subtract else ", which was not meant"))
    if "visibility" not in loses:
        every = range(meant.first_frame, meant.last_frame + 1)
        differ = [f for f in every if a.is_visible(f) != b.is_visible(f)] if a.visible or b.visible else []
        faults += [f"visibility differs at {_first_few(differ)}"] if differ else []
    return faults


def _is_doubled(shape: RotoShape, frame: int) -> bool:
    """Whether a key only repeats its neighbour's held pose a frame later, as files write a move into a hold."""
    before, here = shape.keys.get(frame - 1), shape.keys[frame]
    return before is not None and here.interpolation == "hold" and here.points == before.points


def _hold_keys(shape: RotoShape) -> set[int]:
    """Keys whose hold is visible: it lasts over a frame without a key before the pose changes."""
    return {
        frame
        for frame, after in pairwise(shape.frames)
        if shape.keys[frame].interpolation == "hold"
        and after > frame + 1
        and shape.keys[after].points != shape.keys[frame].points
    }


def _first_few(frames: Sequence[int]) -> str:
    return ", ".join(map(str, frames[:3])) + (" ..." if len(frames) > 3 else "")


# --- curves and mattes ------------------------------------------------------------------------------------------------


def _frames_to_compare(a: RotoShape, b: RotoShape, meant: RotoDocument, loses: Collection[Feature]) -> list[float]:
    """Frames that suffice to compare two shapes.

    Between them both move linearly, or along cubics that agree if these frames do. For a format that sets its own keys,
    only frames on which the shape is visible are compared.
    """
    frames: set[float] = {frame + step for shape in (a, b) for frame in shape.frames for step in (-1, 0, 1)}
    if "keys" not in loses and "visibility" not in loses:
        return sorted({*frames, *eased_frames(a), *eased_frames(b)})
    shown = [f for f in range(meant.first_frame, meant.last_frame + 1) if a.is_visible(f)]
    step = -(-len(shown) // MOST_FRAMES) or 1
    return sorted({*(f for f in shown if f in frames and len(frames) <= MOST_FRAMES), *shown[::step], *shown[-1:]})


def _curve_gaps(a: RotoShape, b: RotoShape, frames: Sequence[float], loses: Collection[Feature]) -> list[float]:
    """Distance of the curves in pixels at each frame, between points of equal parameter where the format keeps them."""
    if "points" not in loses and a.n_points == b.n_points:
        return [float(gap) for gap in samples.distances(a, b, frames)]
    chosen = set(evenly_spread(frames, 40))
    return [largest_curve_distance(a, b, frame) if frame in chosen else 0.0 for frame in frames]


def _feather_gaps(a: RotoShape, b: RotoShape, frames: Sequence[float]) -> list[float]:
    """Distance of the feather lines at each frame, between control points; empty without feather lines."""
    if not (a.has_feather_line and b.has_feather_line and a.n_points == b.n_points):
        return []
    lines = [(line_at(a, frame), line_at(b, frame)) for frame in frames]
    return [max(abs(u - v) for p, q in zip(*each, strict=True) for u, v in zip(p, q, strict=True)) for each in lines]


def largest_curve_distance(a: RotoShape, b: RotoShape, frame: float) -> float:
    """The largest distance in pixels from a point of either curve to the other one, at a frame."""
    left, right = bezier.as_array(a.at(frame)), bezier.as_array(b.at(frame))
    extent = max(1.0, float(np.ptp(left[:, :2], axis=0).max()))
    return bezier.curve_distance(left, right, a.closed, spacing=max(1.0, extent / 400.0))[1]


def _drawn_frames(a: RotoShape, frames: Sequence[float], gaps: Sequence[float]) -> list[float]:
    shown = [frame for frame in frames if a.is_visible(math.floor(frame))]
    worst = [frames[int(np.argmax(gaps))]] if gaps else []
    poses = {a.at(frame): frame for frame in evenly_spread(shown, DRAWN_FRAMES)}
    return sorted({*poses.values(), *(f for f in worst if a.is_visible(math.floor(f)) and gaps[frames.index(f)] > 0)})


def _matte_difference(a: RotoShape, b: RotoShape, meant: RotoDocument, frame: float) -> float:
    """Sum of the differences of two mattes, divided by the area of the first (at least 1 px)."""
    scale = _scale(a, meant, frame)
    size = (max(1, round(meant.width * scale)), max(1, round(meant.height * scale)))
    meant_pose, pose = (_Pose.of(shape, frame, scale) for shape in (a, b))
    if meant_pose.agrees_with(pose):
        return 0.0
    left, right = _matte_again(meant_pose, *size), pose.draw_region(*size)
    both = [region for region in (left, right) if not region.is_empty]
    if not both:
        return 0.0
    x, y = min(region.x for region in both), min(region.y for region in both)
    right_end = max(region.x + region.coverage.shape[1] for region in both)
    bottom = max(region.y + region.coverage.shape[0] for region in both)
    planes = [
        Region(region.x - x, region.y - y, region.coverage).paste(right_end - x, bottom - y).astype(np.float64)
        for region in (left, right)
    ]
    return float(np.abs(planes[0] - planes[1]).sum() / max(planes[0].sum(), 1.0))


@dataclass(frozen=True, slots=True)
class _Pose:
    """A shape at one frame and scale: all values that its matte depends on."""

    closed: bool
    points: Points
    feather: Points
    widths: Widths
    width_px: float
    feather_px: float
    taper: tuple[float, float]

    @classmethod
    def of(cls, shape: RotoShape, frame: float, scale: float) -> _Pose:
        """The pose of a shape at a frame, scaled down."""
        points, feather = (
            tuple(ControlPoint(*(value * scale for value in row)) for row in rows)
            for rows in (shape.at(frame), shape.feather_at(frame))
        )
        widths = tuple(StrokeWidth(*(value * scale for value in row)) for row in shape.widths_at(frame))
        width = 0.0 if shape.closed else DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
        look = (width * scale, shape.feather_px * scale, (shape.taper[0], shape.taper[1]))
        return cls(shape.closed, points, feather, widths, *look)

    def agrees_with(self, other: _Pose) -> bool:
        """Whether every number is within SAME_PX of the other's."""
        if self.closed != other.closed:
            return False
        ours, theirs = self._numbers(), other._numbers()
        return len(ours) == len(theirs) and bool((np.abs(ours - theirs) <= SAME_PX).all())

    def _numbers(self) -> NDArray[np.float64]:
        rows = (*self.points, *self.feather, *self.widths, (self.width_px, self.feather_px, *self.taper))
        counts = (len(self.points), len(self.feather), len(self.widths))
        return np.array([*counts, *(value for row in rows for value in row)])

    def draw_region(self, width: int, height: int) -> Region:
        """The pose drawn on a plate of that size."""
        key = Key(self.points, feather=self.feather, widths=self.widths)
        look = RotoShape("", self.closed, "matte", {0: key}, self.width_px, self.feather_px, self.taper)
        return matte(look, 0, width, height)


@lru_cache(maxsize=64)  # cached because every format is compared with the same poses; 30 MB at most
def _matte_again(pose: _Pose, width: int, height: int) -> Region:
    return pose.draw_region(width, height)


def _scale(shape: RotoShape, meant: RotoDocument, frame: float) -> float:
    """1, or a smaller scale at which a large shape and its feather can be drawn in milliseconds."""
    at = bezier.as_array(shape.at(frame))[:, :2].clip((0, 0), (meant.width, meant.height))
    extent = float(np.ptp(at, axis=0).max()) + 2.0 * (shape.feather_px + (shape.width_px or 0.0))
    return min(1.0, DRAWN_PX / max(extent, 1.0), DRAWN_FEATHER_PX / max(shape.feather_px, 1.0))
