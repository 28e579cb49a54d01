"""The table of features that each format keeps, found by writing and reading files, for `docs/exchange.md`.

`python -m benchmarks.format_matrix docs/exchange.md` renews the table in that file. For every feature, a small shot
that uses it is written in every format, read back, and compared in that feature. Where the feature changes but the
picture hardly does, the table gives the difference as a share of a matte's area. A feature that is neither kept nor
reported as lost is a fault of the product.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import formats, nuke, nuke_reader, plain_shapes
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.exchange.plain_shapes import Extra
from rotopaint_ai.files import write_text
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Interpolation,
    Key,
    Landmark,
    LandmarkKeys,
    RotoDocument,
    RotoShape,
    StrokeWidth,
)

Row = Feature | Extra | Literal["metadata"]
Cell = Literal["kept", "reported", "changed", "lost"]
BEGIN: Final = "<!-- the table below is made by `python -m benchmarks.format_matrix docs/exchange.md` -->"
END: Final = "<!-- end of the table -->"
SAME: Final = 0.05  # of a matte's area
_LIKE: Final = 0.5  # share of a matte's area, for features that become a mean or linear keys
# The basic feature to which an extra is reduced.
_BASES: Final[Mapping[Row, Row]] = {"feather line": "feather", "widths": "width"}
_EXTRAS: Final[frozenset[Row]] = frozenset(get_args(Extra))
_SHOWN: Final[frozenset[Row]] = frozenset(("tangents", "open", "holds", "feather", "width", "taper"))
_PICTURED: Final[frozenset[Row]] = _SHOWN.union(_EXTRAS)
MARKS: Final[Mapping[Cell, str]] = {"kept": "yes", "changed": "in part", "reported": "no", "lost": "SILENT"}
FEATURES: Final[tuple[Row, ...]] = (*get_args(Feature), *get_args(Extra), "metadata")

EYE = (
    ControlPoint(60, 50, -20, 8, 14, -12),
    ControlPoint(130, 40.5, -16, -4, 22, 6),
    ControlPoint(120, 95, 10, -18, -14, 9),
    ControlPoint(70, 100, 18, 4, -6, -16),
)
SEAM = (
    ControlPoint(20, 30, -5, 0, 12, 6),
    ControlPoint(80, 60, -20, -8, 20, 8),
    ControlPoint(150, 50.25, -18, 9, 4, -2),
)


@dataclass(frozen=True, slots=True)
class Survival:
    """The result for a feature in a format."""

    cell: Cell
    figure: float | None = None  # share of a matte's area by which the picture differs, where it was measured

    @property
    def mark(self) -> str:
        """The text of the table's cell."""
        share = "" if self.figure is None else ", < 0.1 %" if self.figure < 0.001 else f", {self.figure:.1%}"
        return MARKS[self.cell] + share.replace("%", " %").replace("  ", " ")


def _moved_sideways(points: tuple[ControlPoint, ...], by: float) -> tuple[ControlPoint, ...]:
    return tuple(p._replace(x=p.x + by, y=p.y + by / 3) for p in points)


def _sample_eye(name: str = "eye") -> RotoShape:
    keys = {
        1001: Key(EYE, "human"),
        1004: Key(_moved_sideways(EYE, 9), "human"),
        1006: Key(_moved_sideways(EYE, 3), "human"),
    }
    return RotoShape(name, True, "matte", keys)


def _sample_stroke(name: str = "nose_seam") -> RotoShape:
    keys = {1001: Key(SEAM, "human"), 1006: Key(_moved_sideways(SEAM, 6), "human")}
    return RotoShape(name, False, "seam", keys, width_px=5.0)


def _held_eye() -> RotoShape:
    eye = _sample_eye()
    return eye.with_keys({frame: replace(key, interpolation="hold") for frame, key in eye.keys.items()})


def _predicted() -> RotoShape:
    eye = _sample_eye()
    return eye.with_keys({**eye.keys, 1004: replace(eye.keys[1004], source="model")})


def _eased_eye(kind: Interpolation) -> RotoShape:
    eye = _sample_eye(kind)
    return eye.with_keys({frame: replace(key, interpolation=kind) for frame, key in eye.keys.items()})


def _feathered_eye() -> RotoShape:
    """An eye whose feather differs from point to point and grows over time."""
    eye, rows = _sample_eye(), [(-6.0, -4.0), (5.0, -8.0), (9.0, 7.0), (-3.0, 4.0)]
    grown = {
        frame: replace(
            key,
            feather=tuple(p._replace(x=x * scale, y=y * scale) for p, (x, y) in zip(key.points, rows, strict=True)),
        )
        for scale, (frame, key) in zip((0.5, 1.0, 1.5), eye.keys.items(), strict=True)
    }
    return eye.with_keys(grown)


def _two_sided_stroke() -> RotoShape:
    stroke = _sample_stroke()
    widths = (StrokeWidth(1.0, 3.0), StrokeWidth(2.0, 4.0), StrokeWidth(4.0, 2.0))
    return stroke.with_keys({frame: replace(key, widths=widths) for frame, key in stroke.keys.items()})


def _turning_layer() -> Layer:
    return Layer("head", {1001: LayerPose(pivot_x=90, pivot_y=60), 1006: LayerPose(12, -6, 30, 1.1, 0.9, 90, 60)})


def _with_metadata() -> RotoDocument:
    """A shot read from a Nuke script, with an attribute that only Nuke uses."""
    text = nuke.dumps(_sample_shot(_sample_eye())).replace("{a osw", "{a r x3f000000 bm x40800000 osw")
    return nuke_reader.read_text(text).document


def _sample_shot(*shapes: RotoShape) -> RotoDocument:
    return RotoDocument(200, 120, 1001, 1006, shapes=shapes)


def _with_landmarks() -> RotoDocument:
    row = (Landmark(10, 20.5, 0.75), None)
    return replace(_sample_shot(_sample_eye()), landmarks=LandmarkKeys(("nose", "chin"), {1001: row, 1003: row}))


SHOTS: Final[Mapping[Row, Callable[[], RotoDocument]]] = {
    "tangents": lambda: _sample_shot(_sample_eye()),
    "points": lambda: _sample_shot(_sample_eye()),
    "open": lambda: _sample_shot(_sample_stroke()),
    "keys": lambda: _sample_shot(_sample_eye()),
    "holds": lambda: _sample_shot(_held_eye()),
    "feather": lambda: _sample_shot(replace(_sample_eye(), feather_px=4.0)),
    "width": lambda: _sample_shot(_sample_stroke()),
    "taper": lambda: _sample_shot(replace(_sample_stroke(), taper=(0.25, 0.5))),
    "subtract": lambda: _sample_shot(_sample_stroke(), replace(_sample_eye(), subtract=True)),
    "visibility": lambda: _sample_shot(replace(_sample_eye(), visible={1003: False, 1004: False})),
    "layers": lambda: _sample_shot(_sample_eye("pip/face/eye"), _sample_stroke("pip/nose_seam")),
    "names": lambda: _sample_shot(_sample_eye("linkes Auge é"), _sample_stroke("nose seam #2")),
    "order": lambda: _sample_shot(_sample_eye("b"), _sample_eye("a"), _sample_stroke("c_seam")),
    "roles": lambda: _sample_shot(replace(_sample_eye(), role="seam"), replace(_sample_stroke("crease"), role="matte")),
    "sources": lambda: _sample_shot(_predicted()),
    "landmarks": _with_landmarks,
    "aspect": lambda: replace(_sample_shot(_sample_eye()), pixel_aspect=2.0),
    "fps": lambda: replace(_sample_shot(_sample_eye()), fps=23.976),
    "range": lambda: replace(_sample_shot(_sample_eye()), first_frame=997, last_frame=1010),
    "size": lambda: _sample_shot(_sample_eye()),
    "eases": lambda: _sample_shot(_eased_eye("ease"), _eased_eye("smooth")),
    "feather line": lambda: _sample_shot(_feathered_eye()),
    "widths": lambda: _sample_shot(_two_sided_stroke()),
    "moving layers": lambda: _sample_shot(replace(_sample_eye(), layer=_turning_layer())),
    "metadata": _with_metadata,
}
NOTES: Final[Mapping[Row, str]] = {
    "tangents": "both handles of every point, mirrored or not",
    "points": "the control points themselves, in their order",
    "open": "open curves",
    "keys": "the keyed frames, no more and no fewer",
    "holds": "keys that hold until the next",
    "feather": "softness outside the edge",
    "width": "width of a stroke",
    "taper": "narrowing ends of a stroke",
    "subtract": "shapes that hold out",
    "visibility": "frames on which a shape is hidden",
    "layers": "groups of shapes",
    "names": "names letter by letter",
    "order": "order of the shapes",
    "roles": "seam or matte",
    "sources": "who set a key",
    "landmarks": "landmarks with expected errors",
    "aspect": "pixel aspect",
    "fps": "frame rate",
    "range": "the shot's first and last frame",
    "size": "the plate's size",
    "eases": "keys that ease or run smoothly",
    "feather line": "softness per point and key",
    "widths": "width of both sides of a stroke, per point",
    "moving layers": "groups with a transform that has keys",
    "metadata": "data that only Nuke uses",
}


def measure_survival() -> dict[str, dict[Row, Survival]]:
    """The result for every feature in every format that can be written, by name of the format."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            form.name: {feature: _try_feature(form, feature, Path(folder) / feature) for feature in FEATURES}
            for form in formats.FORMATS
            if form.write is not None
        }


def _try_feature(form: FormatSpec, feature: Row, folder: Path) -> Survival:
    folder.mkdir(exist_ok=True)
    meant = SHOTS[feature]()
    path = folder / f"shot{form.suffixes[0]}"
    _, lost = formats.write(path, meant)
    words = _words(form, feature, meant, lost)
    if form.read is None:
        return Survival("reported" if words else "kept")
    if _comes_back(form, feature, meant, path):
        return Survival("changed" if words else "kept")
    if words and feature == "landmarks" and _same_places(_file_as_read(form, feature, meant, path), meant):
        return Survival("changed")
    base = _BASES.get(feature)
    has_base = base is None or _try_feature(form, base, folder / base).cell in ("kept", "changed")
    if words and feature in _PICTURED and has_base:
        figure = _largest_difference(form, meant, path)
        if figure < (_LIKE if feature in _EXTRAS else SAME):
            return Survival("changed", figure)
    return Survival("reported" if words else "lost")


def _words(form: FormatSpec, feature: Row, meant: RotoDocument, lost: tuple[str, ...]) -> tuple[str, ...]:
    """The loss lines about this feature; all lines of a format that does not assign lines to features."""
    if feature == "eases" and feature in form.holds:
        feature = "keys"  # the file has no keys between which there could be an ease
    if feature in _EXTRAS:
        return plain_shapes.reduced_to(meant, form.holds)[1]
    if feature == "metadata":
        return tuple(line for line in lost if "data that only" in line)
    if form.losses is not None:
        return tuple(dict.fromkeys(loss.text for loss in form.losses(meant) if loss.feature == feature))
    return lost if feature in form.loses else ()


def _file_as_read(form: FormatSpec, feature: Row, meant: RotoDocument, path: Path) -> RotoDocument:
    """The document read back by the format's reader, at the shot's frames; the size is given unless it is tested."""
    source = path if path.exists() else path.with_name("shot.####" + form.suffixes[0])
    alone = feature == "size"
    found, _ = formats.read(source, width=None if alone else meant.width, height=None if alone else meant.height)
    shifted = found.first_frame == 0 and feature != "range"
    return edit.shift_frames(found, meant.first_frame) if shifted else found


def _comes_back(form: FormatSpec, feature: Row, meant: RotoDocument, path: Path) -> bool:
    try:
        found = _file_as_read(form, feature, meant, path)
    except DocumentError:
        return False
    names = form.names(meant) if form.names and feature not in ("names", "layers") else {}
    return _ASPECTS[feature](_renamed(meant, names)) == _ASPECTS[feature](found)


def _renamed(document: RotoDocument, names: Mapping[str, str]) -> RotoDocument:
    shapes = tuple(replace(shape, name=names.get(shape.name, shape.name)) for shape in document.shapes)
    return replace(document, shapes=shapes)


def _same_places(found: RotoDocument, meant: RotoDocument) -> bool:
    """Whether landmarks have the same positions, regardless of their other values."""
    a, b = (
        {
            (frame, name): mark[:2]
            for frame, row in document.landmarks.keys.items()
            for name, mark in zip(document.landmarks.names, row, strict=True)
            if mark is not None
        }
        for document in (found, meant)
    )
    return a == b


def _largest_difference(form: FormatSpec, meant: RotoDocument, path: Path) -> float:
    """The largest share of a matte's area that differs, at the first and the last frame and between them."""
    found = _file_as_read(form, "tangents", meant, path)
    names = form.names(meant) if form.names else {}
    there = {shape.name: shape for shape in found.shapes}
    worst = 0.0
    for shape in meant.shapes:
        for frame in (meant.first_frame, meant.first_frame + 2, meant.first_frame + 4, meant.last_frame):
            a, b = (
                matte(each, frame, meant.width, meant.height).paste(meant.width, meant.height)
                for each in (shape, there[names.get(shape.name, shape.name)])
            )
            worst = max(worst, float(abs(a - b).sum() / a.sum()))
    return worst


def _held_frames(shape: RotoShape) -> list[int]:
    return [frame for frame, key in sorted(shape.keys.items()) if key.interpolation == "hold"][:-1]


def _rounded_numbers(shape: RotoShape, start: int) -> list[list[float]]:
    """Points (start 0) or handles (start 2) of every key, to a thousandth of a pixel."""
    stop = 2 if start == 0 else 6
    return [[round(v, 3) + 0.0 for p in shape.at(f) for v in p[start:stop]] for f in (1001, 1002, 1004, 1006)]


def _rounded_table(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[round(value, 3) + 0.0 for value in row] for row in rows]


def _per_shape(of: Callable[[RotoShape], object]) -> Callable[[RotoDocument], object]:
    return lambda document: {shape.name: of(shape) for shape in document.shapes}


_ASPECTS: Final[Mapping[Row, Callable[[RotoDocument], object]]] = {
    "tangents": _per_shape(lambda shape: _rounded_numbers(shape, 2)),
    "points": _per_shape(lambda shape: _rounded_numbers(shape, 0)),
    "open": _per_shape(lambda shape: shape.closed),
    "keys": _per_shape(lambda shape: shape.frames),
    "holds": _per_shape(_held_frames),
    "feather": _per_shape(lambda shape: round(shape.feather_px, 3)),
    "width": _per_shape(lambda shape: None if shape.width_px is None else round(shape.width_px, 3)),
    "taper": _per_shape(lambda shape: tuple(shape.taper)),
    "subtract": _per_shape(lambda shape: shape.subtract),
    "visibility": _per_shape(lambda shape: sorted(frame for frame, shown in shape.visible.items() if not shown)),
    "layers": lambda document: [shape.name for shape in document.shapes],
    "names": lambda document: [shape.name for shape in document.shapes],
    "order": lambda document: [shape.name for shape in document.shapes],
    "roles": _per_shape(lambda shape: shape.role),
    "sources": _per_shape(lambda shape: [key.source for _, key in sorted(shape.keys.items())]),
    "landmarks": lambda document: document.landmarks,
    "aspect": lambda document: round(document.pixel_aspect, 4),
    "fps": lambda document: round(document.fps, 4),
    "range": lambda document: (document.first_frame, document.last_frame),
    "size": lambda document: (document.width, document.height),
    "eases": _per_shape(lambda shape: [key.interpolation for _, key in sorted(shape.keys.items())][:-1]),
    "feather line": _per_shape(lambda shape: [_rounded_table(key.feather) for _, key in sorted(shape.keys.items())]),
    "widths": _per_shape(lambda shape: [key.widths for _, key in sorted(shape.keys.items())]),
    "moving layers": lambda document: [
        (layer.name, {frame: tuple(round(value, 3) + 0.0 for value in pose) for frame, pose in layer.poses.items()})
        for layer in document.layers
    ],
    "metadata": lambda document: document.metadata,
}


# --- as text ----------------------------------------------------------------------------------------------------------


def matrix_table(found: Mapping[str, Mapping[Row, Survival]]) -> str:
    """The table as Markdown: a row for each feature, a column for each format."""
    names = list(found)
    lines = [f"| feature | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [f"| {NOTES[f]} | {' | '.join(found[name][f].mark for name in names)} |" for f in FEATURES]
    return "\n".join(lines) + "\n"


def renew_table(text: str) -> str:
    """A page with the table between its marks renewed. Raises DocumentError for a page without the marks."""
    if BEGIN not in text or END not in text:
        raise DocumentError("the page has no place for the table; add the two marks of format_matrix.py")
    head, rest = text.split(BEGIN, 1)
    return f"{head}{BEGIN}\n\n{matrix_table(measure_survival())}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Renew the table in pages, or print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="without a page the table is printed")
    pages = parser.parse_args().pages
    for page in pages:
        write_text(page, renew_table(page.read_text(encoding="utf-8")))
    if not pages:
        print(matrix_table(measure_survival()))


if __name__ == "__main__":
    main()
