"""From a frame and its shapes to files: mattes, the plate with the seams painted away, pictures for the report.

Everything is cut to the region around the shapes, never the whole plate. H, W rows and columns of a region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.errors import DocumentError, PlateError
from rotopaint_ai.files import replacing
from rotopaint_ai.pipeline.out_folder import Files
from rotopaint_ai.plates import exr_writer
from rotopaint_ai.plates.clean_writer import clean_suffix, write_clean
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.matte_layers import write_layers
from rotopaint_ai.plates.plate import Frame, Plate
from rotopaint_ai.plates.sequence import pad
from rotopaint_ai.seams import cleanplate, touchup
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.matte import seam_curves
from rotopaint_ai.seams.paint_settings import AUTO, Paint, PaintTable
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.seams.strokes import CLEAN, PLATE, Strokes, StrokeSource
from rotopaint_ai.seams.visibility import Visibility, look, strength
from rotopaint_ai.shapes.rasterise import EMPTY, Region, mattes_of, union
from rotopaint_ai.shapes.roto import RotoShape

Array = npt.NDArray[Any]

_SIGNS = re.compile(r"[^A-Za-z0-9_-]")  # what Nuke's layers or some file system cannot bear
LONGEST_NAME = 100
FRONT = "front"  # the matte of what stands in front of the face
PATCH_FOLDER = "patch"
NOT_FINITE = "what it shows cannot be measured (NaN or infinite pixels); render it again"
LEAST_FINITE = 0.5  # share of finite pixels around seams; with fewer a seam cannot be filled
PICTURES = "report/img"
_PICTURE = re.compile(r"(face|before|after)\.-?\d+\.jpg")
FACE_PX = 640
COMPARE_PX = 1400
JPEG_QUALITY = 92
SURROUND_PX = 48  # pixels around the seams that a fill and its measure may look at
EMPTY_PIXEL = Region(0, 0, np.zeros((1, 1), dtype=np.float32))  # what an empty matte's file holds
Window = tuple[int, int, int, int]  # left, top, right, bottom in plate pixels
ReadFrame = Callable[[int], Frame]


@dataclass(frozen=True, slots=True)
class Format:
    """The facts of a plate that decide names and data windows of written files."""

    name: str
    padding: int
    width: int
    height: int
    pixel_aspect: float
    suffix: str

    @classmethod
    def of(cls, plate: Plate) -> Format:
        """The facts of a plate."""
        return cls(plate.name, plate.padding, plate.width, plate.height, plate.pixel_aspect, clean_suffix(plate))

    def number(self, frame: int) -> str:
        """A frame's number in file names; at least four digits, like the plates of most studios."""
        return pad(frame, self.padding or 4)

    def clean_name(self, frame: int) -> str:
        """Path of a clean frame inside the run's folder."""
        return f"clean/{self.name}.{self.number(frame)}{self.suffix}"

    def matte_name(self, shape: str, frame: int) -> str:
        """Path of a matte inside the run's folder."""
        return f"matte/{shape}.{self.number(frame)}.exr"


@dataclass(frozen=True, slots=True)
class Mattes:
    """A frame's mattes: each shape's own region, the union of the seams', and what stands in front of the face, which
    the paint leaves as it is."""

    regions: dict[str, Region]
    seam: Region
    front: Region = EMPTY

    @property
    def seam_px(self) -> float:
        """Area of the seam matte, pixels."""
        return float(self.seam.coverage.sum(dtype=np.float64))


@dataclass(frozen=True, slots=True)
class SeamPart:
    """Some seams of a region that are painted with the same settings: their matte (H, W), middle lines and paint.

    `front`: coverage (H, W) by what stands in front of them, which stays as it is; None where nothing does. The fill
    works on the whole matte: that beside a hand is painted as without the hand's hold-out, whose pixels are no face.
    """

    matte: Array
    curves: tuple[WideCurve, ...]
    paint: Paint
    front: Array | None = None

    @property
    def area(self) -> Array:
        """The matte (H, W) without what stands in front."""
        return self.matte if self.front is None else self.matte * (np.float32(1.0) - self.front)

    @property
    def cover(self) -> Array:
        """The opacity of the paint (H, W)."""
        return self.area * np.float32(self.paint.strength)

    def paint_over(self, rgb: Array, model: LearnedFill | None) -> cleanplate.PaintedCrop:
        """A region (H, W, 3) with these seams painted out."""
        cover = self.matte * np.float32(self.paint.strength)
        painted = cleanplate.paint(rgb, cover, self.curves, self.paint.method, model, grain=self.paint.grain)
        if self.front is None:
            return painted
        there = self.front > 0
        after = painted.rgb.copy()
        share = self.front[there][:, None]
        after[there] = np.where(share == 1, rgb[there], after[there] + share * (rgb[there] - after[there]))
        return replace(painted, rgb=after)


@dataclass(frozen=True, slots=True)
class Seams:
    """The region of a plate around its seams, with its top-left pixel x, y.

    Scene-linear (H, W, 3), matte (H, W) without what stands in front, and the seams' middle lines with half widths, in
    the region's pixels, with their names. `parts` groups them by paint settings; `seen` is their visibility before
    painting. `held`: for each seam the coverage (H, W) by what stands in front, where it is not measured; None where
    nothing is held out.
    """

    x: int
    y: int
    rgb: Array
    matte: Array
    curves: tuple[WideCurve, ...]
    parts: tuple[SeamPart, ...]
    names: tuple[str, ...] = ()
    seen: Visibility | None = None
    held: tuple[Array | None, ...] = ()

    def filled(self, model: LearnedFill | None = None) -> FilledRegion:
        """The region with the seams painted out, part by part. Raises: UsageError for an unknown method."""
        after = self.rgb
        chosen: dict[str, float] = {}
        for part in self.parts:
            painted = part.paint_over(after, model)
            after = painted.rgb
            for name, share in painted.chosen.items():
                chosen[name] = chosen.get(name, 0.0) + share / len(self.parts)
        return FilledRegion(self, after, {name: round(share, 4) for name, share in chosen.items()})

    @property
    def cover(self) -> Array:
        """The opacity of the paint at each pixel (H, W)."""
        covers = [part.cover for part in self.parts]
        left: Array = np.float32(1.0) - np.minimum(covers[0], 1.0)
        for cover in covers[1:]:
            left = left * (np.float32(1.0) - np.minimum(cover, 1.0))
        return np.float32(1.0) - left

    def look(self, rgb: Array) -> Visibility:
        """The visibility of the seams in a version of the region."""
        return look(rgb, self.curves, self.held)


@dataclass(frozen=True, slots=True)
class FilledRegion:
    """A region with its seams painted out, and each method's share of their length."""

    seams: Seams
    after: Array
    chosen: Mapping[str, float] = field(default_factory=dict)


def check_measurable(frame: int, filled: FilledRegion | None) -> None:
    """Raise PlateError where too few pixels around a frame's seams are finite to fill from."""
    if filled is not None and np.isfinite(filled.seams.rgb).mean() < LEAST_FINITE:
        raise PlateError(f"frame {frame}: {NOT_FINITE}")


def check_same_size(named: str, size: tuple[int, int], plate: Plate, advice: str) -> None:
    """Raise DocumentError where `named` has another size than the plate."""
    if size != (plate.width, plate.height):
        raise DocumentError(f"{named} {size[0]} x {size[1]}, {plate.name} is {plate.width} x {plate.height}; {advice}")


def run_files(
    shapes: Iterable[str], frames: frozenset[int], format: Format, *, clean: bool, patch: bool, front: bool = False
) -> list[Files]:
    """All files that a run writes for frames: mattes of these shapes, what is held out of the paint (`front`), clean
    plates, patches, pictures for the report."""
    padding = format.padding or 4
    names = [*layer_names(shapes), "all", *([FRONT] if front else [])]
    found = [Files("matte", name, ".exr", frames, padding) for name in names]
    found += [Files(PICTURES, kind, ".jpg", frames, 1) for kind in ("face", "before", "after")]
    if clean:
        found += [Files("clean", format.name, format.suffix, frames, padding)]
        found += [Files(PATCH_FOLDER, format.name, ".exr", frames, padding)] if patch else []
    return found


def draw_mattes(shapes: Iterable[RotoShape], frame: int, format: Format) -> Mattes:
    """Rasterise shapes at a frame; hold-outs are subtracted from the others, and do not count as seams."""
    shapes = tuple(shapes)
    drawn = mattes_of(shapes, frame, format.width, format.height)
    return Mattes(drawn, union(drawn[each.name] for each in shapes if each.role == "seam" and not each.subtract))


def matte_names(shapes: Iterable[str], frame: int, format: Format) -> list[str]:
    """Paths of a frame's matte files inside a run's folder: one for each shape, and the one that holds all."""
    names = [format.matte_name(name, frame) for name in layer_names(shapes)]
    return [*names, format.matte_name("all", frame)] if names else []


def layer_names(shapes: Iterable[str]) -> list[str]:
    """Names of shapes for files and EXR layers: letters, digits, `_`, `-`; unique and never `all` or `front`."""
    taken = {"all", FRONT}
    names = []
    for shape in shapes:
        plain = _SIGNS.sub("_", shape)[:LONGEST_NAME]
        tries = chain([plain], (f"{plain}_{number}" for number in count(2)))
        name = next(each for each in tries if each.casefold() not in taken)
        taken.add(name.casefold())  # some disks do not tell Nose from nose
        names.append(name)
    return names


def write_mattes(out: Path, mattes: Mattes, frame: int, format: Format) -> list[str]:
    """Write `matte/<shape>.<frame>.exr` and `matte/all.<frame>.exr`; returns their paths inside `out`."""
    written = matte_names(mattes.regions, frame, format)
    for path, region in zip(written, mattes.regions.values()):
        _write_layers(out / path, {"matte": region}, format)
    if written:
        _write_layers(out / written[-1], dict(zip(layer_names(mattes.regions), mattes.regions.values())), format)
    return written


def write_front(out: Path, front: Region, frame: int, format: Format) -> str:
    """Write what is held out of a frame's paint, `matte/front.<frame>.exr`; returns its path inside `out`."""
    path = format.matte_name(FRONT, frame)
    _write_layers(out / path, {"matte": front}, format)
    return path


def _write_layers(path: Path, regions: Mapping[str, Region], format: Format) -> None:
    window = union(regions.values())
    if window.is_empty:
        window = EMPTY_PIXEL
    write_layers(
        path,
        {name: _clip_region(region, window) for name, region in regions.items()},
        width=format.width,
        height=format.height,
        pixel_aspect=format.pixel_aspect,
        origin=(window.x, window.y),
    )


def look_at_seams(frame: Frame, mattes: Mattes, shapes: Sequence[RotoShape], paints: PaintTable = AUTO) -> Seams | None:
    """Cut the region around a frame's seams; None where no seam matte covers pixels of the frame."""
    seam = mattes.seam
    if not seam.coverage.any():
        return None
    height, width = seam.coverage.shape
    rgb, (x, y) = frame.region(
        seam.x - SURROUND_PX, seam.y - SURROUND_PX, width + 2 * SURROUND_PX, height + 2 * SURROUND_PX
    )
    if rgb.size == 0:
        return None
    window = Region(x, y, np.zeros(rgb.shape[:2], dtype=np.float32))
    named = {
        shape.name: curve
        for shape in shapes
        if shape.role == "seam" and not shape.subtract and shape.name in mattes.regions
        for curve in seam_curves([shape], frame.number, origin=(x, y))
    }
    curves, cover = tuple(named.values()), _clip_region(seam, window)
    front = _front_over(cover, mattes.front, window)
    held = tuple(front if paints.of(name).hold_out else None for name in named)
    seen = look(rgb, curves, held)
    scores = seen.scores if front is None else map(max, seen.scores, look(rgb, curves).scores)
    painted = {name: _fading(paints.of(name), score) for name, score in zip(named, scores)}
    wanted = list(dict.fromkeys(painted.values())) or [paints.every]
    parts = [SeamPart(cover, curves, wanted[0], front if wanted[0].hold_out else None)]
    if len(wanted) > 1:
        parts = []
        for paint in wanted:
            alike = [name for name in named if painted[name] == paint]
            matte = _clip_region(union(mattes.regions[name] for name in alike), window)
            own = tuple(named[name] for name in alike)
            parts.append(SeamPart(matte, own, paint, front if paint.hold_out else None))
    area = cover if front is None else np.max([part.area for part in parts], axis=0)
    return Seams(x, y, rgb, area, curves, tuple(parts), tuple(named), seen, held)


def _front_over(cover: Array, front: Region, window: Region) -> Array | None:
    """Coverage (H, W) of a window by what stands in front; None where it covers none of the mattes (H, W)."""
    if front.is_empty:
        return None
    before = _clip_region(front, window)
    return before if before[cover > 0].any() else None


def _fading(paint: Paint, score: float) -> Paint:
    """A seam's paint, with less strength where the seam is less visible."""
    share = strength(score)
    return paint if share == 1.0 else replace(paint, strength=paint.strength * share)


def write_filled(path: Path, frame: Frame, filled: FilledRegion | None) -> None:
    """Write the clean frame; pixels outside the seam matte are bit-identical to the plate."""
    if filled is None:
        write_clean(path, frame, np.zeros((0, 0, 3), np.float32), np.zeros((0, 0), bool), at=frame.origin)
    else:
        seams = filled.seams
        write_clean(path, frame, filled.after, seams.matte > 0, at=(seams.x, seams.y))


def _clip_region(region: Region, window: Region) -> Array:
    """A region's coverage on a window that may cut off parts of it."""
    height, width = window.coverage.shape
    return Region(region.x - window.x, region.y - window.y, region.coverage).paste(width, height)


def patch_name(frame: int, format: Format) -> str:
    """Path of a frame's patch inside the run's folder."""
    return f"{PATCH_FOLDER}/{format.name}.{format.number(frame)}.exr"


def write_patch(path: Path, filled: FilledRegion | None, format: Format) -> None:
    """Write scene-linear RGBA, float32 ZIP EXR, so that `plate * (1 - a) + rgb` is the clean plate.

    The layer is premultiplied: where alpha is 0, the colours are 0, too, and a merge `over` the plate in linear light
    gives the clean plate up to float rounding. The data window holds only the seams.
    """
    if filled is None:
        alpha, rgb, at = np.zeros((1, 1), np.float32), np.zeros((1, 1, 3), np.float32), (0, 0)
    else:
        seams = filled.seams
        alpha = np.where(seams.matte > cleanplate.FAINTEST, seams.cover, np.float32(0.0))
        rgb = np.where(alpha[..., None] > 0, filled.after - seams.rgb * (1 - alpha[..., None]), np.float32(0.0))
        at = (seams.x, seams.y)
    planes = [(name, np.ascontiguousarray(rgb[..., k], np.float32)) for k, name in enumerate("RGB")]
    with replacing(path) as beside:
        exr_writer.write(
            beside,
            [*planes, ("A", np.ascontiguousarray(alpha, np.float32))],
            data_at=at,
            display=(0, 0, format.width, format.height),
            pixel_aspect=format.pixel_aspect,
        )


def apply_strokes(frame: Frame, filled: FilledRegion | None, strokes: Strokes, read: ReadFrame) -> FilledRegion | None:
    """A fill with clone strokes over it, which then belong to the paint, in clean plate and patch.

    `filled` is None on a frame without a seam. `read` returns other frames of the plate. The region grows to hold the
    strokes and their sources, as far as the frame has pixels; pixels that they do not cover stay bit-identical. Raises:
    PlateError where the source frame cannot be read.
    """
    if not strokes:
        return filled
    region = _holding(frame, filled, strokes)
    if region is None:
        return filled
    seams = region.seams
    sources: dict[StrokeSource, Array] = {PLATE: seams.rgb, CLEAN: region.after}
    for number in {stroke.source for stroke in strokes if isinstance(stroke.source, int)}:
        sources[number] = _same_region(_source_frame(frame.number, number, read), seams)
    after, cover = touchup.apply(region.after, (seams.x, seams.y), strokes, sources)
    part = SeamPart(cover, (), Paint())
    grown = replace(seams, matte=np.maximum(seams.matte, cover), parts=(*seams.parts, part))
    return replace(region, seams=grown, after=after)


def _source_frame(own: int, number: int, read: ReadFrame) -> Frame:
    try:
        return read(number)
    except PlateError as error:
        raise PlateError(f"frame {own}: a clone stroke copies frame {number}, which cannot be read ({error})") from None


def _same_region(frame: Frame, seams: Seams) -> Array:
    """The pixels of another frame (H, W, 3) in a region; NaN outside its data window."""
    rows, columns = seams.matte.shape
    out = np.full((rows, columns, 3), np.nan, np.float32)
    rgb, (x, y) = frame.region(seams.x, seams.y, columns, rows)
    if rgb.size:
        out[y - seams.y : y - seams.y + rgb.shape[0], x - seams.x : x - seams.x + rgb.shape[1]] = rgb
    return out


def _holding(frame: Frame, filled: FilledRegion | None, strokes: Strokes) -> FilledRegion | None:
    """A fill whose region holds all strokes and their sources; None where the frame has no pixels there."""
    windows = [window for stroke in strokes for window in touchup.windows(stroke)]
    own = None if filled is None else _window_of(filled.seams)
    x0, y0, x1, y1 = _union([*windows, *([own] if own is not None else [])])
    if own == (x0, y0, x1, y1):
        return filled
    rgb, (x, y) = frame.region(x0, y0, x1 - x0, y1 - y0)
    if rgb.size == 0:
        return filled
    matte = np.zeros(rgb.shape[:2], np.float32)
    if filled is None:
        return FilledRegion(Seams(x, y, rgb, matte, (), (SeamPart(matte, (), Paint()),)), rgb)
    return _moved_region(filled, rgb, (x, y))


def _moved_region(filled: FilledRegion, rgb: Array, corner: tuple[int, int]) -> FilledRegion:
    """A fill placed in a larger region (H, W, 3) with the given top-left pixel."""
    seams = filled.seams
    dx, dy = seams.x - corner[0], seams.y - corner[1]
    rows, columns = seams.matte.shape
    place = np.s_[dy : dy + rows, dx : dx + columns]

    def placed(plane: Array, ground: Array) -> Array:
        out = ground.copy()
        out[place] = plane
        return out

    nothing = np.zeros(rgb.shape[:2], np.float32)
    parts = tuple(
        replace(
            part,
            matte=placed(part.matte, nothing),
            curves=_shifted_curves(part.curves, dx, dy),
            front=None if part.front is None else placed(part.front, nothing),
        )
        for part in seams.parts
    )
    grown = replace(
        seams,
        x=corner[0],
        y=corner[1],
        rgb=rgb,
        matte=placed(seams.matte, nothing),
        curves=_shifted_curves(seams.curves, dx, dy),
        parts=parts,
        held=tuple(None if each is None else placed(each, nothing) for each in seams.held),
    )
    return replace(filled, seams=grown, after=placed(filled.after, rgb))


def _shifted_curves(curves: Sequence[WideCurve], dx: int, dy: int) -> tuple[WideCurve, ...]:
    by = np.array([dx, dy], np.float32)
    return tuple((line + by.astype(line.dtype), half) for line, half in curves)


def _window_of(seams: Seams) -> Window:
    rows, columns = seams.matte.shape
    return seams.x, seams.y, seams.x + columns, seams.y + rows


def _union(windows: Sequence[Window]) -> Window:
    x0, y0, x1, y1 = zip(*windows)
    return min(x0), min(y0), max(x1), max(y1)


@dataclass(frozen=True, slots=True)
class PictureNames:
    """Paths of a frame's pictures inside the run's folder."""

    face: str
    before: str
    after: str

    @classmethod
    def of(cls, frame: int) -> PictureNames:
        """The names for a frame."""
        return cls(*(f"{PICTURES}/{kind}.{frame}.jpg" for kind in ("face", "before", "after")))

    @property
    def all(self) -> tuple[str, str, str]:
        """All three paths."""
        return self.face, self.before, self.after


def draw_pictures(out: Path, frame: Frame, crop: Crop, filled: FilledRegion | None) -> None:
    """Write a picture of the frame's face, and of its seams before and after, where they were filled."""
    names = PictureNames.of(frame.number)
    _write_jpeg(out / names.face, _face_picture(frame, crop))
    if filled is not None:
        before, after = _before_and_after(frame, filled)
        _write_jpeg(out / names.before, before)
        _write_jpeg(out / names.after, after)


def remove_others(out: Path, frames: Iterable[int]) -> None:
    """Delete a run's pictures of all frames but these; files with other names are not touched."""
    keep = {out / name for frame in frames for name in PictureNames.of(frame).all}
    for path in (out / PICTURES).glob("*.jpg"):
        if _PICTURE.fullmatch(path.name) and path not in keep:
            path.unlink(missing_ok=True)


def _face_picture(frame: Frame, crop: Crop) -> Array:
    size = round(min(max(crop.side, 64), FACE_PX))
    margin = 4
    x, y = int(crop.x - crop.side / 2) - margin, int(crop.y - crop.side / 2) - margin
    side = int(crop.side) + 2 * margin + 1
    pixels, origin = frame.region(x, y, side, side)
    if pixels.size == 0:
        return np.zeros((size, size, 3), dtype=np.float32)
    return to_display(cut(pixels, origin, crop, size))


def _before_and_after(frame: Frame, filled: FilledRegion) -> tuple[Array, Array]:
    x, y, width, height = _seam_window(filled, frame)
    before, (x, y) = frame.region(x, y, width, height)
    after = before.copy()
    _paste(after, (x, y), filled)
    return _display_at(before), _display_at(after)


def _seam_window(filled: FilledRegion, frame: Frame) -> tuple[int, int, int, int]:
    """A rectangle around the seams with a margin; its aspect is between 4:3 and 16:9."""
    seams = filled.seams
    rows, columns = np.flatnonzero(seams.matte.any(axis=1)), np.flatnonzero(seams.matte.any(axis=0))
    width, height = 1.5 * (columns[-1] - columns[0] + 1) + 16, 1.5 * (rows[-1] - rows[0] + 1) + 16
    width, height = max(width, height * 4 / 3), max(height, width * 9 / 16)
    width, height = min(round(width), frame.width), min(round(height), frame.height)
    x = round(seams.x + (columns[0] + columns[-1] + 1 - width) / 2)
    y = round(seams.y + (rows[0] + rows[-1] + 1 - height) / 2)
    return min(max(x, 0), frame.width - width), min(max(y, 0), frame.height - height), width, height


def _paste(picture: Array, origin: tuple[int, int], filled: FilledRegion) -> None:
    rows, columns = picture.shape[:2]
    height, width = filled.seams.matte.shape
    x, y = filled.seams.x - origin[0], filled.seams.y - origin[1]
    x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + width, columns), min(y + height, rows)
    if x0 < x1 and y0 < y1:
        picture[y0:y1, x0:x1] = filled.after[y0 - y : y1 - y, x0 - x : x1 - x]


def _display_at(linear: Array) -> Array:
    scale = COMPARE_PX / max(linear.shape[:2])
    if scale >= 1:
        return to_display(linear)
    return to_display(cv2.resize(linear, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _write_jpeg(path: Path, display: Array) -> None:
    codes = np.clip(display * 255.0 + 0.5, 0, 255).astype(np.uint8)
    _, data = cv2.imencode(".jpg", codes[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    with replacing(path) as beside:
        beside.write_bytes(data.tobytes())
