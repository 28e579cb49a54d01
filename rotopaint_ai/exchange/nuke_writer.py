"""Shapes as the text of a Nuke Roto or RotoPaint node, ready to paste.

Standard library only. Nuke's y runs up from the bottom of the format, so y becomes `height - y` and the tangents' dy
changes sign. Linear keys are written with the slopes of their chords, because a bare value would hold (step) until the
next key. Eased keys are written with their own slopes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, overload

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke_text
from rotopaint_ai.exchange.limits import check_frames
from rotopaint_ai.exchange.nuke_attributes import MINUS
from rotopaint_ai.exchange.nuke_layers import TRACK, nuke_transform_of
from rotopaint_ai.exchange.nuke_metadata import range_line, script_place
from rotopaint_ai.exchange.nuke_tree import (
    OPEN,
    OPEN_SPLINE,
    RELATIVE,
    RENDERABLE,
    Attributes,
    CurveKey,
    CurvePoint,
    CurvesTree,
    NukeCubic,
    NukeCurve,
    NukeLayer,
    NukeShape,
    NukeTransform,
    as_float32,
)
from rotopaint_ai.shapes.edit_layers import to_layer_space
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, ControlPoint, Key, RotoDocument, RotoShape

NodeKind = Literal["Roto", "RotoPaint"]
Path = tuple[str, ...]  # path of an element: its layers and its name

EndSlopes = tuple[Sequence[float], Sequence[float]] | None  # slopes of a segment's numbers at its start and at its end

_ROOT_FLAGS = 2097152
_TOOL_BEZIER, _TOOL_OPEN_SPLINE = 4.0, 10.0


@dataclass(frozen=True, slots=True)
class NodeTree:
    """A document as a `curves` tree, the path of each shape in it, and the losses."""

    tree: CurvesTree
    format: str  # in Nuke's form: size, box, pixel aspect
    frames: tuple[int, int]  # first and last of the shot, which keys alone do not tell
    paths: Mapping[str, str]  # shape name in the document -> layers and name in the tree, joined by `/`
    losses: tuple[str, ...]


def script(written: NodeTree, *, node: NodeKind = "Roto", name: str = "Roto1") -> str:
    """The text of one node, ready to paste into Nuke."""
    curves = nuke_text.serialise(written.tree)
    return (
        f"set cut_paste_input [stack 0]\nversion 13.2 v8\n{range_line(*written.frames)}push $cut_paste_input\n"
        f'{node} {{\n output alpha\n format "{written.format}"\n cliptype none\n curves {{{curves}}}\n'
        f" name {nuke_name(name)}\n}}\n"
    )


def build_layers(document: RotoDocument, *, layer: str | None = None) -> NodeTree:
    """The tree of a document.

    A name such as `pip/nose_seam` puts the shape into the layer `pip`; `layer` names a layer around all shapes.
    Raises DocumentError for shapes without points, or with numbers that a 32-bit float cannot hold.
    """
    check_frames(document, "shapes")
    placed = _shape_paths(document, layer)
    elements = [
        (placed[shape.name], shape_element(to_layer_space(shape), document, placed[shape.name][-1]))
        for shape in hold_outs_first(document).shapes
        if shape.keys
    ]
    transforms = _transforms(document, layer)
    w, h = document.width, document.height
    middle = (NukeCurve(document.width / 2), NukeCurve(document.height / 2))
    root = NukeLayer("Root", _ROOT_FLAGS, NukeTransform(None, middle), (), _nest(elements, transforms))
    return NodeTree(
        CurvesTree(as_float32(1.2), 0, root),
        f"{w} {h} 0 0 {w} {h} {document.pixel_aspect:.12g} ",
        (document.first_frame, document.last_frame),
        {name: "/".join(path) for name, path in placed.items()},
        losses(document, placed),
    )


def hold_outs_first(document: RotoDocument) -> RotoDocument:
    """The document with its hold-outs on top, because Nuke subtracts a shape only from the shapes below it.

    Hold-outs that come from a script keep their places.
    """
    shapes = sorted(document.shapes, key=lambda shape: not shape.subtract or script_place(shape) is not None)
    return replace(document, shapes=tuple(shapes))


def nuke_names(document: RotoDocument, *, layer: str | None = None) -> dict[str, str]:
    """The name of each shape in a node: layers and name, joined by `/`."""
    return {name: "/".join(path) for name, path in _shape_paths(document, layer).items()}


def _shape_paths(document: RotoDocument, around: str | None) -> dict[str, Path]:
    """The path of each shape in a node: its layers and its name."""
    above, head = _layer_paths(document), _head(around)
    moving = _moving(document, above)
    placed: dict[str, Path] = {}
    taken: dict[Path, int] = {}
    for shape in document.shapes:
        own = above[shape.layer.name] if shape.layer is not None else ()
        path = _under(own, shape.name, "Bezier")
        path = (*_apart(path[:-1], len(own), moving), path[-1])
        placed[shape.name] = _free_path((*head, *path), taken)
    return placed


def _layer_paths(document: RotoDocument) -> dict[str, Path]:
    """The Nuke layers for each of our layers, outermost first; a track gets a separate layer."""
    found: dict[str, Path] = {}
    for layer in document.layers:
        own = found[layer.parent.name] if layer.parent is not None else ()
        path = _apart(_under(own, layer.name, "Layer"), len(own), _moving(document, found))
        if any(each[: len(path)] == path for each in found.values()):  # a folder that contains other layers
            path = (*path[:-1], f"{path[-1]}_layer")
        found[layer.name] = (*path, TRACK) if layer.track else path
    return found


def _moving(document: RotoDocument, paths: Mapping[str, Path]) -> set[Path]:
    """The paths of the Nuke layers that have motion."""
    tracks = {paths[layer.name][:-1] for layer in document.layers if layer.track and layer.name in paths}
    return {*paths.values(), *tracks}


def _head(around: str | None) -> Path:
    return (nuke_name(around),) if around else ()


def _under(own: Path, name: str, usual: str) -> Path:
    """The path of the element `name` in the layer `own`."""
    path = tuple(nuke_name(part) for part in name.split("/") if part.strip()) or (usual,)
    return path if path[: len(own)] == own and len(path) > len(own) else (*own, *path)


def _apart(path: Path, n_own: int, moving: Collection[Path]) -> Path:
    """The path, with a number in its parts after the first `n_own` where they would name another moving layer."""
    for n in range(n_own + 1, len(path) + 1):
        free, count = path[:n], 1
        while free in moving:
            count += 1
            free = (*path[: n - 1], f"{path[n - 1]}_{count}")
        path = (*free, *path[n:])
    return path


def _transforms(document: RotoDocument, around: str | None) -> dict[Path, NukeTransform]:
    found: dict[Path, NukeTransform] = {}
    paths = _layer_paths(document)
    for layer in document.layers:
        path = (*_head(around), *paths[layer.name])
        if layer.track:
            found[path] = nuke_transform_of(layer, document.height, of_track=True)
            path = path[:-1]
        found[path] = nuke_transform_of(layer, document.height)
    return found


def losses(document: RotoDocument, placed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The parts of this document that a Nuke node cannot hold, one line each."""
    found = ["roles, sources of keys and frame rate are not written"]
    if document.landmarks.names:
        found.append(f"{len(document.landmarks.names)} landmarks are not written: a Roto node has none")
    for layer in document.layers:
        if layer.track:
            found.append(f"layer '{layer.name}': its track is written as a key on each of {len(layer.track)} frames")
    shapes = hold_outs_first(document).shapes
    lowest = max((place for place, shape in enumerate(shapes) if shape.subtract), default=0)
    for name in [shape.name for shape in shapes[:lowest] if not shape.subtract]:
        found.append(f"shape '{name}': is above a hold-out, which Nuke subtracts only from the shapes below it")
    for shape in document.shapes:
        if "/".join(placed[shape.name])[-len(shape.name) :] != shape.name:
            fits = all(nuke_name(part) == part for part in shape.name.split("/"))
            why = "a moving layer has that name" if fits else "names cannot contain blanks or special characters"
            found.append(f"shape '{shape.name}' is called '{'/'.join(placed[shape.name])}': {why}")
        if tuple(shape.taper) != (0.0, 0.0):
            found.append(f"shape '{shape.name}': taper is not written; the stroke keeps its width to the ends")
        if shape.has_widths:
            found.append(f"shape '{shape.name}': widths along the stroke are not written, only its one width")
        if not shape.keys:
            found.append(f"shape '{shape.name}' has no key and is not written")
    return tuple(found)


def nuke_name(text: str) -> str:
    """A name that Nuke accepts unchanged: letters, digits and underscores."""
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_-.") else "_" for sign in text.strip())
    return kept or "Bezier"


def _free_path(path: Path, taken: dict[Path, int]) -> Path:
    """The path, with a number where another element has it already; `taken` counts the uses of each path."""
    free = path
    while free in taken:
        taken[path] += 1
        free = (*path[:-1], f"{path[-1]}_{taken[path]}")
    taken[free] = 1
    return free


def _nest(
    elements: Iterable[tuple[Sequence[str], NukeShape]],
    transforms: Mapping[Path, NukeTransform],
    above: Path = (),
) -> tuple[NukeLayer | NukeShape, ...]:
    """Elements and their paths as nested layers with transforms; a layer is at the place of its first element."""
    layers: dict[str, list[tuple[Sequence[str], NukeShape]]] = {}
    order: list[str | NukeShape] = []
    for path, shape in elements:
        if len(path) == 1:
            order.append(shape)
            continue
        if path[0] not in layers:
            layers[path[0]] = []
            order.append(path[0])
        layers[path[0]].append((path[1:], shape))
    return tuple(
        each
        if isinstance(each, NukeShape)
        else NukeLayer(
            each,
            RENDERABLE,
            transforms.get((*above, each), NukeTransform(None, ())),
            (),
            _nest(layers[each], transforms, (*above, each)),
        )
        for each in order
    )


def shape_element(shape: RotoShape, document: RotoDocument, name: str) -> NukeShape:
    """A shape with keys as an element of the tree, in Nuke's pixels with y upwards."""
    line = RELATIVE if shape.closed else OPEN_SPLINE | RELATIVE | OPEN
    return NukeShape(
        name,
        RENDERABLE if shape.closed else OPEN_SPLINE | RENDERABLE,
        "bezier",
        _outline_cubic(shape, document.height, line),
        _feather_cubic(shape, RELATIVE),
        _pivot(shape, document),
        _shape_attributes(shape, document),
    )


def _shape_attributes(shape: RotoShape, document: RotoDocument) -> Attributes:
    attributes: list[tuple[str, NukeCurve]] = []
    visible = visibility(shape, document)
    if visible is not None:
        attributes.append(("vis", visible))
    if shape.subtract:
        attributes.append(("bm", NukeCurve(MINUS)))
    if shape.closed:
        if shape.feather_px:
            attributes += [("fx", NukeCurve(shape.feather_px)), ("fy", NukeCurve(shape.feather_px))]
        attributes += [("osw", NukeCurve(10.0)), ("osf", NukeCurve(0.0))]
    else:
        width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
        attributes += [("osw", NukeCurve(width)), ("osf", NukeCurve(shape.feather_px))]
    attributes += [
        ("str", NukeCurve(1.0)),
        ("spx", NukeCurve(document.width / 2)),
        ("spy", NukeCurve(document.height / 2)),
        ("sb", NukeCurve(1.0)),
        ("ltn", NukeCurve(float(document.first_frame))),
        ("ltm", NukeCurve(float(document.last_frame))),
        ("tt", NukeCurve(_TOOL_BEZIER if shape.closed else _TOOL_OPEN_SPLINE)),
    ]
    return tuple(attributes)


def visibility(shape: RotoShape, document: RotoDocument) -> NukeCurve | None:
    """`vis` as step keys, or None for a shape that is never hidden."""
    hidden = sorted(frame for frame, shown in shape.visible.items() if not shown)
    if not hidden:
        return None
    changes: dict[int, float] = {}
    if hidden[0] > document.first_frame:
        changes[document.first_frame] = 1.0
    for frame in hidden:
        if frame - 1 not in shape.visible or shape.visible[frame - 1]:
            changes[frame] = 0.0
        if shape.visible.get(frame + 1, True):
            changes[frame + 1] = 1.0
    return NukeCurve(keys=tuple(CurveKey(float(frame), changes[frame]) for frame in sorted(changes)))


def _pivot(shape: RotoShape, document: RotoDocument) -> NukeTransform:
    """The transform that Nuke writes for a new shape: only a pivot in its middle."""
    if not shape.keys:
        return NukeTransform(None, (NukeCurve(document.width / 2), NukeCurve(document.height / 2)))
    first = shape.frames[0]
    points = shape.keys[first].points
    xs = [as_float32(p.x) for p in points]
    ys = [as_float32(document.height - p.y) for p in points]
    x, y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    time = float(first)
    return NukeTransform((time,), tuple(NukeCurve(keys=(CurveKey(time, value),)) for value in (x, y)))


def _outline_cubic(shape: RotoShape, height: int, flags: int) -> NukeCubic:
    if not shape.keys:
        return NukeCubic(flags, None, ())
    times, keys = _keys_by_time(shape)
    numbers = array("d", (n for key in keys for point in key.points for n in _nuke(point, height, shape.name)))
    return _cubic(shape, times, keys, numbers, flags)


def _feather_cubic(shape: RotoShape, flags: int) -> NukeCubic | None:
    """The feather line: offsets of its points from the control points, with tangents of their own."""
    if not shape.closed or not shape.has_feather_line:
        return None
    times, keys = _keys_by_time(shape)
    numbers = array("d", (n for time in times for row in shape.feather_at(time) for n in _nuke(row, 0, shape.name)))
    return _cubic(shape, times, keys, numbers, flags, is_feather=True)


def _cubic(
    shape: RotoShape,
    times: Sequence[int],
    keys: Sequence[Key],
    numbers: array[float],
    flags: int,
    *,
    is_feather: bool = False,
) -> NukeCubic:
    slopes = [_end_slopes(shape, key, *each, is_feather) for key, each in zip(keys, pairwise((*times, times[-1])))]
    points = CubicPoints(times, [key.interpolation == "hold" for key in keys], numbers, slopes)
    return NukeCubic(flags, tuple(map(float, times)), points)


def _end_slopes(shape: RotoShape, key: Key, time: int, after: int, is_feather: bool) -> EndSlopes:
    """The slopes of a segment's numbers at its start and end, in Nuke's space; None where it is linear or a hold."""
    if key.interpolation not in ("smooth", "ease") or after == time:
        return None
    if key.interpolation == "ease":
        still = (0.0,) * (6 * len(key.points))
        return still, still
    leaving, arriving = shape.slopes_between(time, after, is_feather)
    return tuple(n for row in leaving for n in _nuke_slopes(row)), tuple(
        n for row in arriving for n in _nuke_slopes(row)
    )


class CubicPoints(Sequence[CurvePoint]):
    """A curve's entries, three for each control point; each entry is made only when it is accessed.

    `numbers` holds the six numbers of `_nuke` for each control point, key by key. All entries together would take
    thirty times the memory.
    """

    def __init__(
        self, times: Sequence[int], steps: Sequence[bool], numbers: array[float], slopes: Sequence[EndSlopes]
    ) -> None:
        self._times, self._steps, self._numbers, self._slopes = times, steps, numbers, slopes
        self._width = len(numbers) // len(times)

    def __len__(self) -> int:
        return self._width // 2

    @overload
    def __getitem__(self, place: int) -> CurvePoint: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[CurvePoint, ...]: ...

    def __getitem__(self, place: int | slice) -> CurvePoint | tuple[CurvePoint, ...]:
        if isinstance(place, slice):
            return tuple(self._point_curve(each) for each in range(len(self))[place])
        return self._point_curve(range(len(self))[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def _point_curve(self, place: int) -> CurvePoint:
        return CurvePoint(tuple(self._curve(2 * place + c) for c in (0, 1)))

    def _curve(self, at: int) -> NukeCurve:
        ends = [each and (each[0][at], each[1][at]) for each in self._slopes]
        return _curve(self._times, self._numbers[at :: self._width], self._steps, ends)


def _keys_by_time(shape: RotoShape) -> tuple[list[int], list[Key]]:
    """Key times and keys as Nuke needs them.

    A bare (step) key has no left slope, so a move into a hold would ease in. There the hold key is written as a linear
    key, and a step key with the same points follows one frame later.
    """
    frames = shape.frames
    times: list[int] = []
    keys: list[Key] = []
    for place, frame in enumerate(frames):
        key = shape.keys[frame]
        times.append(frame)
        if key.interpolation != "hold" or not _arrives_moving(shape, frames, place):
            keys.append(key)
            continue
        keys.append(replace(key, interpolation="linear"))
        if place + 1 < len(frames) and frames[place + 1] > frame + 1:
            times.append(frame + 1)
            keys.append(key)
    return times, keys


def _arrives_moving(shape: RotoShape, frames: Sequence[int], place: int) -> bool:
    """Whether a move of more than one frame ends at this key."""
    if place == 0:
        return False
    before, here = shape.keys[frames[place - 1]], shape.keys[frames[place]]
    moves = before.interpolation != "hold" and (before.points, before.feather) != (here.points, here.feather)
    return moves and frames[place] - frames[place - 1] > 1


def _nuke(point: ControlPoint, height: int, name: str) -> tuple[float, float, float, float, float, float]:
    """Left tangent, point, right tangent in Nuke's space, each x then y."""
    numbers = (point.in_dx, -point.in_dy, point.x, height - point.y, point.out_dx, -point.out_dy)
    for value in numbers:
        if not math.isfinite(value) or abs(value) > 1e9:
            raise DocumentError(
                f"shape '{name}': a control point holds {value:g}; wanted a number below a thousand million"
            )
    return numbers


def _nuke_slopes(row: Sequence[float]) -> tuple[float, ...]:
    """Slopes of a control point in Nuke's order, y up."""
    x, y, in_dx, in_dy, out_dx, out_dy = row
    return in_dx, -in_dy, x, -y, out_dx, -out_dy


def _curve(
    times: Sequence[int],
    values: Sequence[float],
    steps: Sequence[bool],
    ends: Sequence[tuple[float, float] | None],
) -> NukeCurve:
    """A component over time: steps, cubics with the slopes `ends`, or linear keys where there are no slopes.

    Linear keys get the slope of their chord, computed from the 32-bit values that the file will hold.
    """
    values = [as_float32(value) for value in values]
    keys = []
    left = 0.0
    for i, (time, value) in enumerate(zip(times, values, strict=True)):
        if steps[i]:
            keys.append(CurveKey(float(time), value))
            left = 0.0
            continue
        end = ends[i]
        if end is not None:
            right, arriving = end
        else:
            right = (values[i + 1] - value) / (times[i + 1] - time) if i + 1 < len(times) else 0.0
            arriving = right
        keys.append(CurveKey(float(time), value, left, 1.0, right, 1.0, False))
        left = arriving
    return NukeCurve(keys=tuple(keys))
