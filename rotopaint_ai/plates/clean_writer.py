"""Clean plates: the frame as it was, with only the changed pixels replaced."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import files
from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.plates import colour, exr, film, stills
from rotopaint_ai.plates.kinds import PlateKind
from rotopaint_ai.plates.picture import Patch, stamp
from rotopaint_ai.plates.plate import Frame, NativeSource, Plate

Array = NDArray[Any]

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def clean_suffix(plate: Plate) -> str:
    """The file suffix for clean plates of `plate`.

    It is the plate's own suffix. Where the plate's format is lossy it is `.png`, or `.exr` for float codes.
    """
    return _suffix(plate.suffix, is_lossy=plate.is_lossy, is_float=plate.is_float)


def _suffix(own: str, *, is_lossy: bool, is_float: bool) -> str:
    if not is_lossy:
        return own
    return ".exr" if is_float else ".png"


def write_clean(path: Path, frame: Frame, rgb: Array, changed: Array, *, at: tuple[int, int] | None = None) -> None:
    """Write `frame` with new colour where `changed` is true; everything else stays bit-identical.

    `rgb` is scene-linear (h, w, 3), `changed` is (h, w) bool. Both cover the whole data window, or a part of it whose
    top-left pixel is `at` in plate space. Changed pixels are converted to the plate's colour space and rounded to
    nearest, without dither. Channels, layers, parts, compression, windows and metadata are kept. EXR, DPX and Cineon
    files are patched: only chunks with changed pixels are encoded again. Lossy plates are written as PNG of the decoded
    codes. The write is atomic.
    Raises: UsageError for wrong shapes or suffix; PlateError where the plate changed on disk since it was read, or
    where permission is missing; OSError where the disk is full, because then every other frame fails too.
    """
    native = frame.native
    if native is None:
        raise UsageError(f"frame {frame.number}: was read with keep_native=False; read it again to write it")
    patch = _changed_patch(frame, rgb, changed, at)
    own, header = frame.path.suffix if frame.path else "", native.picture.header
    suffix = _suffix(own, is_lossy=header.is_lossy, is_float=header.maximum is None)
    if path.suffix.lower() != suffix.lower():
        raise UsageError(f"{path.name}: clean plates of this plate are {suffix} files; change the suffix")
    try:
        with files.replacing(path) as beside:
            _write_patched(beside, frame, native, patch)
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise PlateError(f"{path.name}: cannot be written ({error.strerror}); check disk and permissions") from error


def _write_patched(target: Path, frame: Frame, native: NativeSource, patch: Patch) -> None:
    picture = native.picture
    if picture.header.is_lossy:
        stills.write_decoded(target, picture, patch, frame.path)
    elif native.kind is PlateKind.EXR:
        exr.write(target, _unchanged(frame, native), picture, patch)
    elif native.kind in (PlateKind.DPX, PlateKind.CINEON):
        film.write(target, _unchanged(frame, native), picture.header.detail, patch)
    else:
        stills.write(target, _unchanged(frame, native), picture, patch)


def _unchanged(frame: Frame, native: NativeSource) -> Path:
    if frame.path is None:
        raise PlateError(f"frame {frame.number}: has no file of its own")
    if stamp(frame.path) != native.stamp:
        raise PlateError(f"{frame.path.name}: was overwritten during this run; run this frame again")
    return frame.path


def _changed_patch(frame: Frame, rgb: Array, changed: Array, at: tuple[int, int] | None) -> Patch:
    rows, columns = frame.codes.shape[:2]
    x, y = (0, 0) if at is None else (at[0] - frame.origin[0], at[1] - frame.origin[1])
    height, width = changed.shape[:2]
    if changed.ndim != 2 or changed.dtype != np.bool_ or rgb.shape != (height, width, 3):
        raise UsageError(
            f"frame {frame.number}: colour {rgb.shape} and changed {changed.shape}; wanted (h, w, 3), (h, w) bool"
        )
    fits = x >= 0 and y >= 0 and x + width <= columns and y + height <= rows
    if not fits or (at is None and (height, width) != (rows, columns)):
        raise UsageError(
            f"frame {frame.number}: {width} x {height} pixels at {x}, {y} do not fit its {columns} x {rows} data window"
        )
    found = np.divmod(np.flatnonzero(changed), width)
    linear = rgb[found]
    if frame.codes.shape[2] == 1:
        linear = linear.mean(axis=1, dtype=np.float64, keepdims=True).repeat(3, axis=1)
    codes = colour.encode(linear, frame.colourspace, dtype=frame.codes.dtype, maximum=frame.maximum)
    return Patch(found[0] + y, found[1] + x, codes[:, : frame.codes.shape[2]])
