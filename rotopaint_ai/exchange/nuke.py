"""Nuke scripts, `.nk`: writing shapes to a Roto node and reading them. Each written file is read back and compared.

Standard library only, so that Nuke's own Python can load it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke_metadata, nuke_reader, nuke_rebuild, nuke_writer
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.limits import check_file
from rotopaint_ai.exchange.linear_keys import eased_frames
from rotopaint_ai.exchange.nuke_curves import parse_curves
from rotopaint_ai.exchange.nuke_reader import NukeReading
from rotopaint_ai.exchange.nuke_text import serialise
from rotopaint_ai.exchange.nuke_tree import CurvesTree, NukeLayer
from rotopaint_ai.exchange.nuke_writer import NodeKind
from rotopaint_ai.files import replacing
from rotopaint_ai.shapes.bake import line_at
from rotopaint_ai.shapes.roto import Points, RotoDocument, RotoShape

NOT_KEPT: Final[frozenset[Feature]] = frozenset(("taper", "roles", "sources", "landmarks", "fps", "names"))
LIMIT_PX: Final = 0.02  # goal G8


@dataclass(frozen=True, slots=True)
class NukeWrite:
    """The result of reading a written file back: the largest distance in pixels, and the losses of the format."""

    max_error_px: float
    losses: tuple[str, ...]


def read(
    path: Path | str, *, width: int | None = None, height: int | None = None, node: str | None = None
) -> RotoDocument:
    """Every shape of every Roto and RotoPaint node in a script. See `read_report` for the losses."""
    return read_report(path, width=width, height=height, node=node).document


def read_report(
    path: Path | str,
    *,
    width: int | None = None,
    height: int | None = None,
    node: str | None = None,
    override: bool = False,
) -> NukeReading:
    """Read a `.nk` or `.gizmo`; returns the document and its losses. Raises DocumentError.

    `width` and `height` are the plate's. They are required where the script states no size, and refused where it states
    another, unless `override` is set. `node` selects one node by name.
    """
    path = Path(path)
    return nuke_reader.read_text(
        nuke_text_of(path), width=width, height=height, node=node, override=override, where=path.name
    )


def nuke_text_of(path: Path) -> str:
    """A script's text with any line ends, in UTF-8 or an older Windows encoding.

    Raises DocumentError where the file cannot be read or is not text.
    """
    try:
        check_file(path)
        raw = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"{path.name}: cannot be read ({error.strerror}); check the path") from error
    if b"\0" in raw[:4096]:
        raise DocumentError(f"{path.name}: is not text; wanted a Nuke script saved as .nk")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def script_names(document: RotoDocument, *, layer: str | None = None) -> dict[str, str]:
    """The name of each shape in a script: layers and name, joined by `/`."""
    try:
        made = None if layer else nuke_rebuild.rebuild_script(document)
        if made is not None:
            return _names_read(made, nuke_reader.read_text(made.text).document)
    except DocumentError:
        pass  # written as one new node
    return nuke_writer.nuke_names(document, layer=layer)


def _names_read(made: nuke_rebuild.RebuiltScript, back: RotoDocument) -> dict[str, str]:
    """The names of the shapes in a rebuilt script. Raises DocumentError where other shapes were read."""
    if len(made.order) != len(back.shapes):
        raise DocumentError(f"{len(back.shapes)} shapes read back; wanted {len(made.order)}")
    return dict(zip(made.order, (shape.name for shape in back.shapes), strict=True))


def dumps(document: RotoDocument, *, layer: str | None = None, node: NodeKind = "Roto", name: str = "Roto1") -> str:
    """The document as the text of one node, ready to paste into Nuke."""
    return nuke_writer.script(nuke_writer.build_layers(document, layer=layer), node=node, name=name)


def write_verified(
    path: Path | str, document: RotoDocument, *, layer: str | None = None, node: NodeKind = "Roto", name: str = "Roto1"
) -> float:
    """Write a `.nk`, read it back and compare; returns the largest distance in pixels between a curve and its source.

    Raises DocumentError, and does not change `path`, where the distance exceeds 0.02 px or a shape is missing.
    """
    return write_report(path, document, layer=layer, node=node, name=name).max_error_px


def write_report(
    path: Path | str, document: RotoDocument, *, layer: str | None = None, node: NodeKind = "Roto", name: str = "Roto1"
) -> NukeWrite:
    """As `write_verified`, also with the losses.

    A document that keeps the nodes of a script is written back into these nodes. If a `layer` is given, or the nodes
    are damaged, all shapes are written into one new node, and the losses report it.
    """
    path = Path(path)
    given_up: tuple[str, ...] = ()
    if layer is None and nuke_metadata.NAMESPACE in document.metadata:
        try:
            return _write_rebuilt(path, document)
        except DocumentError as reason:
            given_up = (f"the script's own layers, attributes and strokes are not written back: {reason}",)
    written = nuke_writer.build_layers(document, layer=layer)
    text = nuke_writer.script(written, node=node, name=name)
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
        back = nuke_reader.read_text(beside.read_text(encoding="utf-8"), where=path.name).document
        error = curve_difference(document, back, written.paths)
        if not error <= LIMIT_PX:
            raise DocumentError(
                f"{path.name}: reads back {error:.3f} px off; wanted at most {LIMIT_PX} px; the file was not written"
            )
    return NukeWrite(error, (*given_up, *written.losses))


def _write_rebuilt(path: Path, document: RotoDocument) -> NukeWrite:
    made = nuke_rebuild.rebuild_script(document)
    if made is None:
        raise DocumentError("the document has no stored node")
    with replacing(path) as beside:
        beside.write_text(made.text, encoding="utf-8", newline="\n")
        back = nuke_reader.read_text(beside.read_text(encoding="utf-8"), where=path.name).document
        called = _names_read(made, back)
        error = curve_difference(document, back, called)
        if not error <= LIMIT_PX:
            raise DocumentError(f"they read back {error:.3f} px off")
    placed = {shape.name: called.get(shape.name, shape.name).split("/") for shape in document.shapes}
    return NukeWrite(error, (*made.losses, *nuke_writer.losses(document, placed)))


def curve_difference(meant: RotoDocument, found: RotoDocument, paths: Mapping[str, str] | None = None) -> float:
    """The largest distance in pixels between the curves of two documents over all frames.

    It is measured between absolute points and handles, which bound the distance of the curves. `paths` maps the names
    of the first document's shapes to those of the second. Raises DocumentError, which names the shape, where a shape is
    missing, was opened or closed, is shown or hidden at other frames, or has another number of points.
    """
    worst = 0.0
    names = {shape.name: shape for shape in found.shapes}
    for shape in (each for each in meant.shapes if each.keys):
        other = names.get(paths[shape.name] if paths else shape.name)
        if other is None:
            raise DocumentError(f"shape '{shape.name}' is missing from the file")
        if (other.closed, other.n_points) != (shape.closed, shape.n_points):
            raise DocumentError(f"shape '{shape.name}' changed in kind or number of points ({other.n_points})")
        for frame in range(meant.first_frame, meant.last_frame + 1) if shape.visible or other.visible else ():
            if shape.is_visible(frame) != other.is_visible(frame):
                raise DocumentError(f"shape '{shape.name}': its visibility differs at frame {frame}")
        frames = _frames_that_settle(shape, other)
        worst = max([worst, *(_largest_gap(shape.at(f), other.at(f)) for f in frames)])
        if shape.has_feather_line or other.has_feather_line:
            worst = max([worst, *(_largest_gap(line_at(shape, f), line_at(other, f)) for f in frames)])
    return worst


def _frames_that_settle(a: RotoShape, b: RotoShape) -> list[float]:
    """Frames that suffice to compare two shapes everywhere: between them both move linearly, or along cubics."""
    keyed = {frame + step for shape in (a, b) for frame in shape.frames for step in (-1, 0, 1)}
    return sorted(keyed.union(eased_frames(a), eased_frames(b)))


def _largest_gap(a: Points, b: Points) -> float:
    worst = 0.0
    for p, q in zip(a, b, strict=True):
        dx, dy, ix, iy, ox, oy = (u - v for u, v in zip(p, q, strict=True))
        worst = max(worst, math.hypot(dx, dy), math.hypot(dx + ix, dy + iy), math.hypot(dx + ox, dy + oy))
    return worst


def update_layer(curves: str, document: RotoDocument, *, layer: str) -> str:
    """A node's `curves` text with our layer of that name replaced, or added on top; everything else is unchanged.

    `curves` and the result are the text between the knob's outer braces. `CurveKnob.fromScript` needs the braces too.
    """
    tree = parse_curves(curves)
    ours = nuke_writer.build_layers(document, layer=layer).tree.root.children
    name = ours[0].name if ours else layer
    kept = [child for child in tree.root.children if not (isinstance(child, NukeLayer) and child.name == name)]
    place = next((i for i, child in enumerate(tree.root.children) if child.name == name), 0)
    root = replace(tree.root, children=(*kept[:place], *ours, *kept[place:]))
    return serialise(CurvesTree(tree.version, tree.flags, root))
