"""Every shape format of this product in one table, and conversion between them by suffix.

Standard library only; numpy is imported when a file is written. Every written file is read back and compared with its
source.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import (
    aftereffects,
    blend_files,
    blender,
    coco,
    cryptomatte_format,
    document,
    feather_edges,
    fusion,
    json_files,
    labelme,
    lossiness,
    lottie,
    nuke,
    plain_shapes,
    polygons,
    silhouette,
    ssf,
    svg,
)
from rotopaint_ai.exchange.features import EVERY
from rotopaint_ai.exchange.format_spec import FormatSpec, Tell, WrittenFile, make_text_format
from rotopaint_ai.exchange.limits import bounded_width, check_names
from rotopaint_ai.exchange.parsing import SizeConflictError, frame_files
from rotopaint_ai.exchange.stroke_outlines import closed_strokes
from rotopaint_ai.files import refuse_no_file
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, Slopes, StrokeWidth

if TYPE_CHECKING:
    from rotopaint_ai.exchange.round_trip import Proof


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion: shapes and keys written, largest error in pixels, and all losses."""

    path: Path
    n_shapes: int
    n_keys: int
    max_error_px: float
    losses: tuple[str, ...]


def _read_document(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    found = document.read(path)
    if width is not None and height is not None and (width, height) != (found.width, found.height):
        raise SizeConflictError(path.name, (found.width, found.height), (width, height))
    return found, ()


def _write_document(path: Path, meant: RotoDocument) -> WrittenFile:
    document.write(path, meant)
    return WrittenFile(nuke.curve_difference(meant, document.read(path)), ())


def _read_nuke(
    path: Path, width: int | None, height: int | None, node: str | None = None, override: bool = False
) -> tuple[RotoDocument, tuple[str, ...]]:
    reading = nuke.read_report(path, width=width, height=height, node=node, override=override)
    return reading.document, reading.losses


def _prove_nuke(path: Path, meant: RotoDocument) -> Proof:
    from rotopaint_ai.exchange.nuke_writer import hold_outs_first
    from rotopaint_ai.exchange.round_trip import compare

    found, _ = _read_nuke(path, meant.width, meant.height)
    return compare(hold_outs_first(meant), found, loses=nuke.NOT_KEPT, names=nuke.script_names(meant))


def _write_nuke(path: Path, meant: RotoDocument) -> WrittenFile:
    proof = nuke.write_report(path, meant)
    return WrittenFile(proof.max_error_px, proof.losses)


def _read_svg(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    reading = svg.read_report(path, width=width, height=height)
    return reading.document, reading.losses


def _write_svg(path: Path, meant: RotoDocument) -> WrittenFile:
    svg.write(path, meant)
    away = lossiness.texts(lossiness.list_losses(meant, keeps=EVERY - (svg.NOT_KEPT - svg.SAID)))
    return WrittenFile(_drawn_difference(meant, svg.read(path)), (*svg.LOSSES, *away))


def _drawn_difference(meant: RotoDocument, found: RotoDocument) -> float:
    """The largest error over the drawn frames; pictures have no data for the frames between them."""
    shapes = {shape.name: shape for shape in found.shapes}
    worst = 0.0
    for shape in meant.shapes:
        frames = [f for f in range(meant.first_frame, meant.last_frame + 1) if shape.keys and shape.is_visible(f)]
        if not frames:
            continue
        drawn = shape.with_keys({frame: Key(shape.at(frame)) for frame in frames})
        if shape.name not in shapes or shapes[shape.name].frames != drawn.frames:
            raise DocumentError(f"shape '{shape.name}' was not drawn at every frame")
        drawn, other = (replace(_as_drawn(each), visible={}) for each in (drawn, shapes[shape.name]))
        worst = max(worst, nuke.curve_difference(replace(meant, shapes=(drawn,)), replace(meant, shapes=(other,))))
    return worst


def _as_drawn(shape: RotoShape) -> RotoShape:
    """A shape without the two outer handles of an open curve, which do not affect the drawing."""
    if shape.closed:
        return shape
    return shape.with_keys({frame: replace(key, points=_ends_cut(key.points)) for frame, key in shape.keys.items()})


def _ends_cut(points: Points) -> Points:
    first = (points[0]._replace(in_dx=0.0, in_dy=0.0), *points[1:])
    return (*first[:-1], first[-1]._replace(out_dx=0.0, out_dy=0.0))


FORMATS = (
    FormatSpec(
        "RotoPaint",
        (".roto.json",),
        "the open document, everything kept",
        _read_document,
        _write_document,
        holds=plain_shapes.ALL,
    ),
    FormatSpec(
        "Nuke",
        (".nk", ".gizmo"),
        "Roto and RotoPaint nodes; landmarks, taper lost",
        _read_nuke,
        _write_nuke,
        loses=nuke.NOT_KEPT,
        names=nuke.script_names,
        prove=_prove_nuke,
        read_nodes=_read_nuke,
        holds=frozenset(("eases", "feather line", "moving layers")),
    ),
    FormatSpec(
        "SVG",
        (".svg",),
        "a drawing of every frame; keys and landmarks lost",
        _read_svg,
        _write_svg,
        loses=svg.NOT_KEPT,
        states_aspect=False,
        states_fps=False,
        holds=frozenset(("eases",)),
    ),
    make_text_format(
        ssf,
        "SSF",
        (".ssf",),
        "Shake shape file: Mocha, Silhouette, Fusion",
        names=ssf.ssf_names,
        as_written=feather_edges.reduce_feathers,
        holds=frozenset(("feather line",)),
        counts_from_first=True,
        states_aspect=False,
        states_fps=False,
    ),
    make_text_format(
        fusion,
        "Fusion",
        (".setting",),
        "polygon masks to paste into Fusion or Resolve",
        names=fusion.fusion_names,
        as_written=feather_edges.reduce_feathers,
        holds=frozenset(("feather line",)),
        read_only=(".comp",),
        states_fps=False,
        is_relative=True,
    ),
    make_text_format(
        aftereffects,
        "AfterEffects",
        (".jsx",),
        "a script that builds masks; reads the dump of a composition, .ae.json",
        as_written=plain_shapes.hold_outs_last,
        holds=frozenset(("feather widths",)),
        read_only=(".ae.json",),
    ),
    make_text_format(
        blender,
        "Blender",
        (".py",),
        "a script that builds masks; reads the dump of a file, .blender.json",
        names=blender.blender_names,
        holds=frozenset(("feather widths",)),
        as_written=blender.as_blender_holds,
        settled=blender.SETTLED,
        read_only=(".blender.json",),
        is_relative=True,
    ),
    make_text_format(
        silhouette,
        "Silhouette",
        (".fxs",),
        "experimental: Bezier shapes, no feather",
        names=silhouette.silhouette_names,
        as_written=silhouette.as_silhouette_holds,
        states_aspect=False,
        states_fps=False,
        stretched=silhouette.loads,
        note=silhouette.EXPERIMENTAL,
        is_relative=True,
    ),
    make_text_format(
        coco,
        "COCO",
        (".coco.json",),
        "polygons of every frame, landmarks as keypoints",
        as_written=coco.as_coco_holds,
        settled=polygons.SETTLED,
        holds=frozenset(("eases",)),
        states_aspect=False,
        states_fps=False,
    ),
    make_text_format(
        lottie,
        "Lottie",
        (".lottie.json",),
        "animated vectors: video editors, motion graphics, browsers",
        holds=frozenset(("ease",)),
        states_aspect=False,
    ),
    labelme.FORMAT,
    cryptomatte_format.CRYPTOMATTE,
    blend_files.FORMAT,
    json_files.FORMAT,
)


def format_of(path: Path | str) -> FormatSpec:
    """The format of a file, by its longest matching suffix. Raises UsageError, which lists all formats."""
    name = Path(path).name.lower()
    fitting = [(len(s), each) for each in FORMATS for s in each.suffixes if name.endswith(s)]
    if fitting:
        return max(fitting, key=lambda pair: pair[0])[1]
    if name.endswith(tuple(ASKED_ELSEWHERE)):
        raise UsageError(f"{Path(path).name}: {ASKED_ELSEWHERE[Path(name).suffix]}")
    known = ", ".join(suffix for each in FORMATS for suffix in each.suffixes)
    raise UsageError(f"{Path(path).name}: no shape format has this suffix; wanted one of {known}")


ASKED_ELSEWHERE = {
    ".aep": "can be read only by After Effects; run the script of 'rotopaint convert --scripts DIR' there",
    ".txt": "is not a shape format: keyframe text holds positions only; export a Shake shape file (.ssf) from Mocha",
    ".mocha": "is a project whose shapes follow tracks; export a Shake shape file (.ssf) or Nuke shapes from Mocha",
    ".sfx": "is a whole Silhouette project; export shapes as .fxs, .ssf or for Nuke from Silhouette",
}


def host_scripts() -> dict[str, str]:
    """Scripts that other programs run to write their masks for this product, by file name."""
    return {
        "rotopaint_from_after_effects.jsx": aftereffects.dump_script(),
        "rotopaint_from_blender.py": blender.dump_script(),
    }


def read(
    path: Path | str,
    *,
    width: int | None = None,
    height: int | None = None,
    pixel_aspect: float | None = None,
    fps: float | None = None,
    node: str | None = None,
    override: bool = False,
) -> tuple[RotoDocument, tuple[str, ...]]:
    """A document from a file of any format, with its losses. Raises UsageError, DocumentError.

    `width` and `height`, `pixel_aspect` and `fps` are the plate's, for files that do not state them. A file that states
    another value is refused; with `override` the given size is used anyway, and reported. `node` selects one node of a
    script by its name.
    """
    each = format_of(path)
    if each.read is None:
        raise UsageError(f"{Path(path).name}: {each.name} is written only, not read")
    if node is not None and each.read_nodes is None:
        raise UsageError(f"--node {node}: a {each.name} file has no nodes; leave it out")
    try:
        if each.read_nodes is not None:
            found, lost = each.read_nodes(Path(path), width, height, node, override)
        elif each.read_stretched is not None and pixel_aspect is not None:
            found, lost = each.read_stretched(Path(path), width, height, pixel_aspect)
        else:
            found, lost = _read_at(each, Path(path), width, height, override)
    except RecursionError as error:
        raise DocumentError(f"{Path(path).name}: groups are nested too deeply to read; flatten them there") from error
    check_names(found, Path(path).name)
    found, lost = _clip_to_limits(found, lost)
    if pixel_aspect is not None:
        _refuse_other("pixel aspect", each.states_aspect, found.pixel_aspect, pixel_aspect, 1.0, path)
        found = replace(found, pixel_aspect=pixel_aspect)
    if fps is not None:
        _refuse_other("frame rate", each.states_fps, found.fps, fps, 24.0, path)
        found = replace(found, fps=fps)
    return found, lost


def _clip_to_limits(found: RotoDocument, lost: tuple[str, ...]) -> tuple[RotoDocument, tuple[str, ...]]:
    """The document with widths and feathers cut to the limits of `.roto.json`, so that it can be saved and read."""
    lines, shapes = list(lost), []
    for shape in found.shapes:

        def report(text: str, name: str = shape.name) -> None:
            lines.append(f"{name}: {text}")

        width = None if shape.width_px is None else bounded_width(shape.width_px, "width", report)
        shapes.append(replace(shape, width_px=width, feather_px=bounded_width(shape.feather_px, "feather", report)))
    return (found, lost) if len(lines) == len(lost) else (replace(found, shapes=tuple(shapes)), tuple(lines))


def _read_at(
    each: FormatSpec, path: Path, width: int | None, height: int | None, override: bool
) -> tuple[RotoDocument, tuple[str, ...]]:
    """The document at the requested size, where that is allowed.

    Pixel coordinates stay; coordinates that are shares of the plate are scaled.
    """
    assert each.read is not None
    try:
        return each.read(path, width, height)
    except SizeConflictError as conflict:
        if not override:
            raise
        found, lost = each.read(path, None, None)
        scale = conflict.asked[0] / found.width, conflict.asked[1] / found.height
        change = "shapes are scaled" if each.is_relative else "shapes keep their distance from the top left"
        line = f"made for {found.width} x {found.height}, read as {conflict.asked[0]} x {conflict.asked[1]}: {change}"
        shapes = tuple(_scaled_shape(shape, *scale) for shape in found.shapes) if each.is_relative else found.shapes
        found = replace(found, width=conflict.asked[0], height=conflict.asked[1], shapes=shapes)
        return found, (line, *lost)


def _scaled_shape(shape: RotoShape, x: float, y: float) -> RotoShape:
    def of_rows(rows: Points) -> Points:
        return tuple(ControlPoint(*(value * (x, y)[i % 2] for i, value in enumerate(row))) for row in rows)

    def scaled(key: Key) -> Key:
        widths = tuple(StrokeWidth(*(value * x for value in each)) for each in key.widths)
        slopes = key.slopes and Slopes(
            of_rows(key.slopes.leaving),
            of_rows(key.slopes.arriving),
            of_rows(key.slopes.feather_leaving),
            of_rows(key.slopes.feather_arriving),
        )
        return replace(key, points=of_rows(key.points), feather=of_rows(key.feather), widths=widths, slopes=slopes)

    width = None if shape.width_px is None else shape.width_px * x
    looks = replace(shape, width_px=width, feather_px=shape.feather_px * x)
    return looks.with_keys({frame: scaled(key) for frame, key in shape.keys.items()})


def _refuse_other(what: str, is_stated: bool, found: float, asked: float, usual: float, path: Path | str) -> None:
    """Raise if a file states another number than the requested one, unless the stated number is only a default."""
    if is_stated and found != usual and abs(found - asked) > 1e-3 * found:
        raise DocumentError(f"{Path(path).name}: is made for {what} {found:g}, but {asked:g} was given; leave it out")


_INSTEAD = {"JSON": "write .coco.json or .labelme.json", "Blender file": "write a .py and run it in Blender"}


def write(path: Path | str, meant: RotoDocument, tell: Tell | None = None) -> tuple[float, tuple[str, ...]]:
    """Write a document in any format and read it back; returns the largest error in pixels, and the losses.

    An existing file at `path` is replaced after the new file has been read back, and is kept if that fails. `tell`
    receives the number of finished frames, for slow formats.
    """
    written = _write_in_place(path, meant, tell)
    return written.error_px, written.losses


def write_with_proof(path: Path | str, meant: RotoDocument) -> tuple[Proof, tuple[str, ...]]:
    """As `write`, with the proof from reading back and drawing the file. Raises DocumentError where it differs."""
    written = _write_in_place(path, meant)
    return written.proof or proof_of(path, meant).require(Path(path).name), written.losses


def _write_in_place(
    path: Path | str, meant: RotoDocument, tell: Tell | None = None, source: Path | None = None
) -> WrittenFile:
    each = format_of(path)
    if each.write is None or not Path(path).name.lower().endswith(each.suffixes[0]):
        writes = f"write a {each.suffixes[0]}" if each.write else _INSTEAD.get(each.name, "choose another format")
        raise UsageError(f"{Path(path).name}: {each.name} of this suffix is read only; {writes}")
    meant, given_up = plain_shapes.reduced_to(meant, each.holds)
    target = Path(path)
    refuse_no_file(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(prefix=".rotopaint-", dir=target.parent) as folder:
            beside = Path(folder) / target.name
            written = (
                each.write_frames(beside, meant, tell) if each.write_frames and tell else each.write(beside, meant)
            )
            all_made = sorted(Path(folder).iterdir())
            for made in all_made:
                _refuse_source(target.parent / made.name, source)
            for made in all_made:
                os.replace(made, target.parent / made.name)
    except OSError as error:
        error.filename, error.filename2 = str(target), None
        raise
    given_up += (*_left_behind(meant, each), *_older_frames(target, each, {made.name for made in all_made}))
    return replace(written, losses=(*given_up, *written.losses)) if given_up else written


def _refuse_source(target: Path, source: Path | None) -> None:
    """Refuse to overwrite the source, because a script holds more than shapes. A source may be a pattern of files."""
    if source is None or not target.exists():
        return
    sources = [source] if source.exists() else source.parent.glob(re.sub("#+", "*", glob.escape(source.name)))
    if any(each.samefile(target) for each in sources):
        raise UsageError(f"{target}: is also the source; choose another name to write to")


def _older_frames(target: Path, each: FormatSpec, made: Collection[str]) -> Iterator[str]:
    """A line on the files of an earlier export of other frames, which a program would read with these."""
    if each.pattern is None:
        return
    pattern = each.pattern(target)
    older = sorted(path.name for path in frame_files(pattern) if path.name not in made)
    if older:
        yield f"{len(older)} files of other frames stay beside it, such as {older[0]}: {pattern.name} names them, too"


def _left_behind(meant: RotoDocument, each: FormatSpec) -> Iterator[str]:
    """A line for each kind of metadata of another program that this format cannot hold."""
    for other in FORMATS:
        if other.name.lower() in meant.metadata and each.name not in (other.name, FORMATS[0].name):
            yield f"data that only {other.name} uses (layers, colours, blend modes, strokes) is not written"


def written_path(path: Path | str) -> Path:
    """The path that a format really writes for a given path: itself, or a pattern with one file per frame."""
    each = format_of(path)
    return each.pattern(Path(path)) if each.pattern is not None else Path(path)


def proof_of(path: Path | str, meant: RotoDocument) -> Proof:
    """The proof of a file that was written for a document: its own reader reads it, and the two are compared.

    Raises DocumentError where it cannot be read, UsageError where nothing reads or writes this suffix.
    """
    from rotopaint_ai.exchange.round_trip import compare

    kind = format_of(path)
    meant, _ = plain_shapes.reduced_to(meant, kind.holds)
    if kind.prove is not None:
        return kind.prove(Path(path), meant)
    if kind.read is None:
        raise UsageError(f"{Path(path).name}: {kind.name} is written only; nothing reads it back")
    found, _ = kind.read(Path(path), meant.width, meant.height)
    names = kind.names(meant) if kind.names else None
    return compare(meant, found, loses=kind.loses, names=names, limit_px=kind.limit_px)


def check_size_options(width: int | None, height: int | None) -> None:
    """Raise UsageError unless both sides of a plate are given and above 0, or neither is given."""
    if (width is None) != (height is None) or any(side is not None and side <= 0 for side in (width, height)):
        raise UsageError("give --width and --height together, both above 0")


def convert(
    source: Path | str,
    target: Path | str,
    *,
    width: int | None = None,
    height: int | None = None,
    offset: int = 0,
    pixel_aspect: float | None = None,
    fps: float | None = None,
    bands: bool = False,
    node: str | None = None,
    begins: Callable[[FormatSpec, RotoDocument], None] = lambda format, meant: None,
    tell: Tell | None = None,
) -> Conversion:
    """Convert between shape formats, chosen by suffix; `offset` frames are added to every frame number.

    `width` and `height` (both or neither) override the size that the source states; the losses report it.
    `pixel_aspect` and `fps` are the plate's, for sources that do not state them. `node` selects one node of a script.
    `bands` writes strokes as closed outlines of their width. `begins` is called before writing, with the document and
    its format; `tell` is as in `write`.
    Raises: UsageError, also where the source would be overwritten; DocumentError. Where reading fails, the target is
    not touched.
    """
    check_size_options(width, height)
    for option, value in (("--pixel-aspect", pixel_aspect), ("--fps", fps)):
        if value is not None and not 0 < value < 1e4:
            limit = " and below 10,000" if value >= 1e4 else ""
            raise UsageError(f"{option} {value:g}: wanted a number above 0{limit}")
    format_of(target)
    _refuse_source(Path(target), Path(source))
    found, lost = read(source, width=width, height=height, pixel_aspect=pixel_aspect, fps=fps, node=node, override=True)
    if not found.shapes and not found.landmarks.keys:
        lost = (*lost, f"{Path(source).name}: holds no shapes; export the node or the layers that carry them")
    meant = edit.shift_frames(found, offset) if offset else found
    if offset and found.metadata:
        meant = replace(meant, metadata={})
        lost = (*lost, "--offset: data that only one program uses (layers, colours, strokes) is not kept")
    meant = closed_strokes(meant) if bands else meant
    begins(format_of(target), meant)
    written = _write_in_place(target, meant, tell, Path(source))
    n_keys = sum(len(shape.keys) for shape in meant.shapes)
    losses = (*lost, *written.losses)
    return Conversion(written_path(target), len(meant.shapes), n_keys, written.error_px, losses)
