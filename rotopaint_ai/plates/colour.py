"""Colour: converting a plate's codes to scene-linear pixels and back.

All computation uses scene-linear pixels. A plate's colour space is `linear`, `sRGB`, `Rec.709` (camera curve), `Cineon`
(film log: black 95, white 685, 0.002 density per code, film gamma 0.6), or any colour space of OCIO's built-in
studio config (`ACEScg`, `ARRI LogC4`, ...). Networks get display-referred pixels, see DISPLAY.

The first four are computed here, with tables for integer codes; tests compare them with OpenColorIO.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import UsageError

Array = NDArray[Any]

CONFIG = "ocio://studio-config-v1.0.0_aces-v1.3_ocio-v2.1"
WORKING_SPACE = "Linear Rec.709 (sRGB)"
DISPLAY: dict[str, str] = {"config": CONFIG, "display": "sRGB - Display", "view": "Un-tone-mapped"}


@dataclass(frozen=True, slots=True)
class TransferCurve:
    """One transfer curve, the same for red, green and blue: codes 0..1 to scene-linear and back."""

    to_linear: Callable[[Array], Array]
    from_linear: Callable[[Array], Array]


def _srgb_to_linear(code: Array) -> Array:
    """IEC 61966-2-1, mirrored below zero."""
    size = np.abs(code)
    return np.copysign(np.where(size <= 0.04045, size / 12.92, ((size + 0.055) / 1.055) ** 2.4), code)


def _linear_to_srgb(linear: Array) -> Array:
    size = np.abs(linear)
    return np.copysign(np.where(size <= 0.0031308, size * 12.92, 1.055 * size ** (1 / 2.4) - 0.055), linear)


# The constants of BT.709 (1.099, 0.018) to full precision, where its two branches meet and so can be inverted.
_ALPHA, _BETA = 1.09929682680944, 0.018053968510807


def _rec709_to_linear(code: Array) -> Array:
    """ITU-R BT.709-6, item 1.2, inverted; mirrored below zero."""
    size = np.abs(code)
    bent = ((size + (_ALPHA - 1)) / _ALPHA) ** (1 / 0.45)
    return np.copysign(np.where(size < 4.5 * _BETA, size / 4.5, bent), code)


def _linear_to_rec709(linear: Array) -> Array:
    size = np.abs(linear)
    return np.copysign(np.where(size < _BETA, size * 4.5, _ALPHA * size**0.45 - (_ALPHA - 1)), linear)


_CINEON_BLACK = 10.0 ** ((95 - 685) * 0.002 / 0.6)


def _cineon_to_linear(code: Array) -> Array:
    """Kodak, "Conversion of 10-bit Log Film Data to 8-bit Linear or Video Data" (1995), without soft clip."""
    return (10.0 ** ((1023.0 * code - 685.0) * (0.002 / 0.6)) - _CINEON_BLACK) / (1.0 - _CINEON_BLACK)


def _linear_to_cineon(linear: Array) -> Array:
    light = np.maximum(linear * (1.0 - _CINEON_BLACK) + _CINEON_BLACK, 1e-6)
    return (np.log10(light) * (0.6 / 0.002) + 685.0) / 1023.0


def _identity_curve(values: Array) -> Array:
    return values


CURVES: dict[str, TransferCurve] = {
    "linear": TransferCurve(_identity_curve, _identity_curve),
    "sRGB": TransferCurve(_srgb_to_linear, _linear_to_srgb),
    "Rec.709": TransferCurve(_rec709_to_linear, _linear_to_rec709),
    "Cineon": TransferCurve(_cineon_to_linear, _linear_to_cineon),
}
_ALIASES = {name.lower(): name for name in CURVES} | {
    "lin": "linear",
    "raw": "linear",
    "scene-linear": "linear",
    "srgb - texture": "sRGB",
    "rec709": "Rec.709",
    "bt709": "Rec.709",
    "bt.709": "Rec.709",
    "camera rec.709": "Rec.709",
    "log": "Cineon",
    "kodaklog": "Cineon",
}


def resolve(name: str) -> str:
    """The colour space called `name`, in the spelling of this module or of OCIO.

    Raises: UsageError for a name that neither this module nor OCIO knows.
    """
    known = _ALIASES.get(name.strip().lower())
    if known is not None:
        return known
    names: dict[str, str] = {space.lower(): space for space in _config().getColorSpaceNames()}
    if name.strip().lower() in names:
        return names[name.strip().lower()]
    raise UsageError(
        f"colour space '{name}': not known; wanted {', '.join(CURVES)}, or one of OCIO's studio config such as ACEScg"
    )


def colourspaces() -> tuple[str, ...]:
    """The names of all colour spaces: the four of this module, then OCIO's."""
    return (*CURVES, *(str(name) for name in _config().getColorSpaceNames()))


def linearise(codes: Array, colourspace: str, *, maximum: int | None = None) -> Array:
    """Codes of a plate as scene-linear float32 of the same shape (last axis R, G, B).

    `codes` is uint8, uint16 or uint32; `maximum` is the code for 1.0 (default: the largest value of the type). Half and
    float codes are used as they are. Returns a new array. Infinity and NaN of float plates are kept.
    """
    if codes.dtype.kind == "f":
        return _linearise_floats(codes, colourspace)
    top = int(np.iinfo(codes.dtype).max) if maximum is None else maximum
    if colourspace in CURVES and codes.dtype.itemsize <= 2:
        return look_up(codes, _linear_table(colourspace, top, codes.dtype.itemsize * 8))
    values = np.asarray(codes, np.float64) / top
    if colourspace in CURVES:
        return CURVES[colourspace].to_linear(values).astype(np.float32)
    return _through_ocio(values.astype(np.float32), colourspace, WORKING_SPACE)


def encode(linear: Array, colourspace: str, *, dtype: Any, maximum: int | None = None) -> Array:
    """Scene-linear pixels (..., 3) as a plate's codes: the inverse of `linearise`, rounded to nearest, no dither.

    Values outside the range of the codes are clipped. NaN becomes 0 in integer codes and stays NaN in float codes.
    """
    kind = np.dtype(dtype)
    if colourspace in CURVES:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            values = CURVES[colourspace].from_linear(np.asarray(linear, np.float64))
    else:
        values = _through_ocio(np.array(linear, np.float32), WORKING_SPACE, colourspace)
    if kind.kind == "f":
        return to_float(values, kind)
    top = int(np.iinfo(kind).max) if maximum is None else maximum
    whole: Array = np.rint(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * top).astype(kind)
    return whole


def to_float(values: Array, dtype: Any) -> Array:
    """Values cast to half or float: finite ones are clipped to the range of the type, infinity and NaN are kept."""
    limit = float(np.finfo(dtype).max)
    with np.errstate(over="ignore", invalid="ignore"):
        clipped = np.where(np.isfinite(values), np.clip(values, -limit, limit), values)
        return np.asarray(clipped.astype(dtype))


def to_display(rgb_linear: Array, *, view: str = DISPLAY["view"], display: str = DISPLAY["display"]) -> Array:
    """Scene-linear (..., 3) as display-referred float32 0..1, through OCIO's built-in studio config.

    The default view applies only the sRGB curve: an 8-bit sRGB plate becomes code / 255, accurate to 1/1000 (a table
    over half precision is used). NaN becomes 0. Raises UsageError for a view that the display does not have.
    """
    if view == DISPLAY["view"] and display == DISPLAY["display"]:
        clipped = np.clip(rgb_linear, 0.0, 1.0)
        return look_up(clipped.astype(np.float16).view(np.uint16), _display_table())
    pixels = np.array(rgb_linear, np.float32)
    processor = _display_processor(display, view)
    flat = np.ascontiguousarray(pixels.reshape(-1, 3))
    processor.applyRGB(flat)
    return np.clip(np.nan_to_num(flat.reshape(pixels.shape), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


def views(display: str = DISPLAY["display"]) -> tuple[str, ...]:
    """The views that OCIO's built-in config has for `display`."""
    return tuple(_config().getViews(display))


def look_up(codes: Array, table: Array) -> Array:
    """`table[codes]` for uint8 or uint16 codes, by the fastest method available."""
    if codes.ndim == 3 and codes.size:
        try:
            return np.asarray(cv2.LUT(np.ascontiguousarray(codes), table.reshape(1, -1))).reshape(codes.shape)
        except cv2.error:  # OpenCV 4 has tables for 8 bit only
            pass
    return np.asarray(np.take(table, codes))


def half_to_float(values: Array) -> Array:
    """Half converted to float32 exactly, including NaN and infinity."""
    if values.ndim == 3 and values.size:
        return look_up(values.view(np.uint16), _half_linear_table())
    return _widen(values)


def _widen(values: Array) -> Array:
    with np.errstate(invalid="ignore"):  # numpy warns of a signalling NaN in the plate
        return np.asarray(values.astype(np.float32))


def _linearise_floats(codes: Array, colourspace: str) -> Array:
    if codes.dtype == np.float16:
        values = half_to_float(codes)
    else:
        values = codes.astype(np.float32)
    if colourspace == "linear":
        return values
    if colourspace in CURVES:
        with np.errstate(invalid="ignore", over="ignore"):
            return CURVES[colourspace].to_linear(values.astype(np.float64)).astype(np.float32)
    return _through_ocio(values, colourspace, WORKING_SPACE)


@lru_cache(maxsize=16)
def _linear_table(colourspace: str, maximum: int, bits: int) -> Array:
    codes = np.minimum(np.arange(1 << bits, dtype=np.float64) / maximum, 1.0)
    return CURVES[colourspace].to_linear(codes).astype(np.float32)


@lru_cache(maxsize=1)
def _half_linear_table() -> Array:
    return _widen(np.arange(65536, dtype=np.uint16).view(np.float16))


@lru_cache(maxsize=1)
def _display_table() -> Array:
    linear = np.nan_to_num(np.asarray(_half_linear_table()), nan=0.0, posinf=1.0, neginf=0.0)
    return _linear_to_srgb(np.clip(linear, 0.0, 1.0).astype(np.float64)).astype(np.float32)


@lru_cache(maxsize=1)
def _config() -> Any:
    import PyOpenColorIO as ocio  # imported late: the four colour spaces above do not need it

    return ocio.Config.CreateFromFile(CONFIG)


@lru_cache(maxsize=16)
def _space_processor(source: str, target: str) -> Any:
    import PyOpenColorIO as ocio

    # lossless: OCIO's fast powers have errors up to 1e-4, and a code would not survive the round trip
    return _config().getProcessor(source, target).getOptimizedCPUProcessor(ocio.OPTIMIZATION_LOSSLESS)


@lru_cache(maxsize=16)
def _display_processor(display: str, view: str) -> Any:
    import PyOpenColorIO as ocio

    if view not in views(display):
        raise UsageError(f"view '{view}': not on display '{display}'; wanted one of {', '.join(views(display))}")
    processor = _config().getProcessor(WORKING_SPACE, display, view, ocio.TRANSFORM_DIR_FORWARD)
    return processor.getDefaultCPUProcessor()


def _through_ocio(values: Array, source: str, target: str) -> Array:
    flat = np.ascontiguousarray(values.reshape(-1, 3))
    _space_processor(source, target).applyRGB(flat)
    return flat.reshape(values.shape)
