"""PNG, JPEG, TIFF and a few other stills, read through OpenImageIO; codes are returned as the file stores them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, UnsupportedPlateError
from rotopaint_ai.plates import exr_writer, oiio, png
from rotopaint_ai.plates.picture import Header, Patch, Picture, check_header_size, check_plausible, contents

Array = NDArray[Any]

_LOSSY = ("jpeg", "ojpeg", "sgilog", "sgilog24", "thunderscan", "lerc", "webp")
_FOREIGN = ("CMYK", "LAB", "ICCLAB", "ITULAB", "YCbCr", "LOGLUV")


@dataclass(frozen=True, slots=True)
class StillDetail:
    """OpenImageIO's description of the file, and which of its channels are the picture."""

    spec: Any
    places: tuple[int, ...]
    dtype: Any
    bits: int


def header(path: Path) -> Header:
    """Geometry of a still. Raises DamagedFrameError, UnsupportedPlateError."""
    with oiio.opened_image(path) as source:
        return _header_of_still(source, path)


def _header_of_still(source: Any, path: Path) -> Header:
    spec = source.spec()
    check_header_size(path.name, spec.width, spec.height)
    check_plausible(path.name, spec.image_bytes(), path)
    dtype = oiio.DTYPES.get(str(spec.format))
    if dtype is None or spec.depth > 1:
        raise UnsupportedPlateError(f"{path.name}: pixels of type {spec.format} are not read; save it as 8 or 16 bit")
    is_float = np.dtype(dtype).kind == "f"
    return Header(
        width=spec.full_width,
        height=spec.full_height,
        x=spec.x - spec.full_x,
        y=spec.y - spec.full_y,
        data_width=spec.width,
        data_height=spec.height,
        pixel_aspect=_still_aspect(spec),
        fps=None,
        colourspace="linear" if is_float else "sRGB",
        maximum=None if is_float else _largest(dtype),
        is_lossy=_is_lossy(spec, path),
        detail=StillDetail(spec, _channel_order(spec, path), dtype, spec.get_int_attribute("oiio:BitsPerSample", 0)),
    )


def _largest(dtype: Any) -> int:
    return int(np.iinfo(dtype).max)


def _still_aspect(spec: Any) -> float:
    aspect = float(spec.get_float_attribute("PixelAspectRatio", 1.0))
    return aspect if 1e-3 < aspect < 1e3 else 1.0


def _is_lossy(spec: Any, path: Path) -> bool:
    compression = spec.get_string_attribute("compression").partition(":")[0]
    foreign = spec.get_string_attribute("tiff:ColorSpace") in _FOREIGN
    return foreign or compression in _LOSSY or path.suffix.lower() not in (".png", ".tif", ".tiff")


def _channel_order(spec: Any, path: Path) -> tuple[int, ...]:
    names = [str(name) for name in spec.channelnames]
    if all(name in names for name in "RGB"):
        return tuple(names.index(name) for name in "RGB")
    if "Y" in names:
        return (names.index("Y"),)
    if len(names) >= 3:
        return (0, 1, 2)
    if names:
        return (0,)
    raise UnsupportedPlateError(f"{path.name}: has no channels; wanted R, G, B or one channel")


def read(path: Path) -> Picture:
    """The colour codes of a still, and all its channels for writing back. Raises DamagedFrameError."""
    with oiio.opened_image(path) as source:
        found = _header_of_still(source, path)
        _check_whole(path)
        detail: StillDetail = found.detail
        every = oiio.read_pixels(source, path, first=0, end=detail.spec.nchannels, dtype=detail.dtype)
    if every.shape[:2] != (found.data_height, found.data_width):
        raise DamagedFrameError(f"{path.name}: size differs between header and pixels; render it again")
    if detail.places == tuple(range(every.shape[2])):
        return Picture(found, every)
    return Picture(found, np.ascontiguousarray(every[..., list(detail.places)]), rest=every)


def _check_whole(path: Path) -> None:
    """Refuse a JPEG without its end marker: the decoder would fill the missing part with grey."""
    with contents(path) as data:
        if data[:2] != b"\xff\xd8":
            return
        text = data[:]
    if text.rfind(b"\xff\xd9") < text.rfind(b"\xff\xda"):
        raise DamagedFrameError(f"{path.name}: is cut off, its end marker is missing; render it again")


def write(target: Path, source: Path, picture: Picture, patch: Patch) -> None:
    """Write a copy of a PNG or TIFF with the pixels of `patch`; channels, bit depth and metadata stay.

    TIFF compression is kept where it is lossless. Palettes become RGB. Raises PlateError.
    """
    detail: StillDetail = picture.header.detail
    every = (picture.codes if picture.rest is None else picture.rest).copy()
    places = detail.places[: patch.codes.shape[1]]
    every[patch.rows[:, None], patch.columns[:, None], np.array(places)] = _snap_codes(patch.codes, detail)
    if target.suffix.lower() == ".png":
        bits = every.dtype.itemsize * 8
        before, after = png.side_chunks(source, channels=every.shape[2], bits=bits)
        png.write(target, every, before=before, after=after)
        return
    oiio.save(target, _same_form(detail.spec, detail.dtype), every)
    _append_other_pages(target, source)


def _same_form(found: Any, dtype: Any) -> Any:
    spec = oiio.library().ImageSpec(found)
    spec.set_format(oiio.type_of(dtype))  # whether alpha is premultiplied stays as the file says
    return spec


def _append_other_pages(target: Path, source: Path) -> None:
    """Copy the second and further pages of a TIFF."""
    with oiio.opened_image(source) as pages:
        number = 1
        while pages.seek_subimage(number, 0):
            spec = pages.spec()
            dtype = oiio.DTYPES.get(str(spec.format))
            if dtype is None:
                raise UnsupportedPlateError(f"{source.name}: page {number + 1} of type {spec.format} cannot be copied")
            page = oiio.read_pixels(pages, source, first=0, end=spec.nchannels, dtype=dtype, subimage=number)
            oiio.save(target, _same_form(spec, dtype), page, mode="AppendSubimage")
            number += 1


def _snap_codes(codes: Array, detail: StillDetail) -> Array:
    """Codes rounded to the bit depth of the file, then scaled to the range of the type as the reader scales them."""
    width = codes.dtype.itemsize * 8
    if codes.dtype.kind == "f" or not 0 < detail.bits < width:
        return codes
    few = np.rint(codes / np.float64(_largest(codes.dtype)) * ((1 << detail.bits) - 1)).astype(np.uint64)
    spread, at = np.zeros_like(few), width - detail.bits
    while at > -detail.bits:
        spread |= few << np.uint64(at) if at >= 0 else few >> np.uint64(-at)
        at -= detail.bits
    return spread.astype(codes.dtype)


def write_decoded(target: Path, picture: Picture, patch: Patch, source: Path | None) -> None:
    """Write the colour codes of a plate that cannot be written in its own format: PNG, or float EXR for float codes.

    A PNG has the EXIF data of a JPEG `source`, its orientation too: pixels are as they are stored in both.
    Raises: PlateError for codes that neither format can hold.
    """
    codes, aspect = picture.codes.copy(), picture.header.pixel_aspect
    codes[patch.rows, patch.columns] = patch.codes
    if codes.dtype.kind == "f":
        names = ("R", "G", "B") if codes.shape[2] == 3 else ("Y",)
        planes = [(name, codes[..., place]) for place, name in enumerate(names)]
        display = (0, 0, picture.header.width, picture.header.height)
        at = (picture.header.x, picture.header.y)
        exr_writer.write(target, planes, data_at=at, display=display, pixel_aspect=aspect)
        return
    chunks = [png.pixel_aspect_chunk(aspect)] if aspect != 1.0 else []
    exif = b"" if source is None else _exif_of_jpeg(source)
    chunks += [png.exif_chunk(exif)] if exif else []
    png.write(target, codes, before=_colour_chunks(picture) + chunks, after=[])


_EXIF = b"Exif\0\0"
_MOST_HEAD = 1 << 20  # bytes of a JPEG in which its EXIF data are looked for


def _exif_of_jpeg(path: Path) -> bytes:
    """The EXIF data of a JPEG file, without their name; empty where it has none. Source: EXIF 2.32, section 4.7.2."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_MOST_HEAD)
    except OSError:
        return b""
    at = 2
    while head[:2] == b"\xff\xd8" and at + 4 <= len(head) and head[at] == 0xFF and head[at + 1] not in (0xD9, 0xDA):
        length = int.from_bytes(head[at + 2 : at + 4], "big")
        if head[at + 1] == 0xE1 and head.startswith(_EXIF, at + 4) and at + 2 + length <= len(head):
            return head[at + 4 + len(_EXIF) : at + 2 + length]
        at += 2 + max(length, 2)
    return b""


def _colour_chunks(picture: Picture) -> list[bytes]:
    if not isinstance(picture.header.detail, StillDetail):
        return [png.video_chunk()]
    profile = picture.header.detail.spec.getattribute("ICCProfile")
    return [] if profile is None else [png.profile_chunk(np.asarray(profile, np.uint8).tobytes())]
