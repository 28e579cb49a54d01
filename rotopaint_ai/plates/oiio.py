"""A wrapper of OpenImageIO that avoids its traps: undecodable error texts, global limits, premultiplied alpha.

OpenImageIO is imported only when a file needs it: its tables take 25 MB, and the common EXR files do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, PlateError
from rotopaint_ai.plates.picture import MAX_PIXELS, MAX_SIDE

Array = NDArray[Any]


@cache
def library() -> Any:
    """The OpenImageIO module, with this product's limits set."""
    import OpenImageIO

    OpenImageIO.attribute("limits:resolution", MAX_SIDE)
    OpenImageIO.attribute("limits:imagesize_MB", (MAX_PIXELS >> 20) * 16)
    OpenImageIO.attribute("limits:channels", 1024)
    return OpenImageIO


def error_text(source: Any, path: Path) -> str:
    """OpenImageIO's error as one short line. Its Python binding raises where that text is not UTF-8."""
    try:
        text = str(source.geterror())
    except UnicodeDecodeError as error:
        text = bytes(error.object).decode("latin-1")
    lines = [line for line in text.replace(str(path), path.name).splitlines() if line.strip()]
    line = "".join(c if c.isprintable() else "?" for c in (lines[0] if lines else "no reason given"))
    return line[:160].removeprefix("EXR Error (").strip()


@contextmanager
def opened_image(path: Path) -> Iterator[Any]:
    """An open ImageInput that returns the pixels as stored, without multiplying by alpha.

    Raises: DamagedFrameError with the reader's reason.
    """
    config = library().ImageSpec()
    config.attribute("oiio:UnassociatedAlpha", 1)
    config.attribute("oiio:reorient", 0)
    try:
        source = library().ImageInput.open(str(path), config)
    except (UnicodeError, TypeError) as error:
        raise PlateError(f"{path.name!a}: the file name is not plain text; rename the file") from error
    if source is None:
        raise DamagedFrameError(f"{path.name}: cannot be opened ({error_text(library(), path)}); render it again")
    try:
        yield source
    finally:
        source.close()


def read_pixels(source: Any, path: Path, *, first: int, end: int, dtype: Any, subimage: int = 0) -> Array:
    """Channels `first` (included) to `end` (excluded) of a subimage, all rows, as (rows, columns, channels).

    Raises: DamagedFrameError where rows are missing or broken.
    """
    found = source.read_image(subimage, 0, first, end, type_of(dtype))
    if found is None or source.has_error:
        raise DamagedFrameError(f"{path.name}: pixels cannot be read ({error_text(source, path)}); render it again")
    array = np.asarray(found)
    return array[..., None] if array.ndim == 2 else array


_MATTE_NAMES = ("a", "alpha", "mask", "matte")  # last parts of the names of channels that hold a matte


def read_matte_channels(path: Path, subimage: int = 0) -> Array | None:
    """The brightest of alpha and channels called mask or matte (rows, columns), 1.0 as full; None where there are none.

    Raises: DamagedFrameError.
    """
    with opened_image(path) as source:
        source.seek_subimage(subimage, 0)
        names = [str(name).lower().rpartition(".")[2] for name in source.spec().channelnames]
        found = [
            read_pixels(source, path, first=at, end=at + 1, dtype=np.float32, subimage=subimage)
            for at, name in enumerate(names)
            if name in _MATTE_NAMES
        ]
    return np.max(found, axis=0)[..., 0] if found else None


def read_matte_names(path: Path) -> tuple[str, ...]:
    """The names of a picture's layers that have an alpha: `arm` for a channel `arm.A`. Raises: DamagedFrameError."""
    with opened_image(path) as source:
        names = [str(name) for name in source.spec().channelnames]
    return tuple(name.removesuffix(".A") for name in names if name.endswith(".A"))


def type_of(dtype: Any) -> Any:
    """OpenImageIO's name for a numpy type."""
    return library().TypeDesc(_TYPES[np.dtype(dtype).name])


_TYPES = {"uint8": "uint8", "uint16": "uint16", "uint32": "uint", "float16": "half", "float32": "float"}
DTYPES = {"uint8": np.uint8, "uint16": np.uint16, "uint": np.uint32, "half": np.float16, "float": np.float32}


def save(path: Path, spec: Any, codes: Array, *, mode: str = "Create") -> None:
    """Write one picture as `spec` says: into a new file, or as a further page of an existing file.

    Raises: PlateError with the writer's reason.
    """
    output = library().ImageOutput.create(str(path))
    if output is None:
        raise PlateError(f"{path.name}: no writer for {path.suffix} ({error_text(library(), path)})")
    written = bool(output.open(str(path), spec, mode)) and bool(output.write_image(np.ascontiguousarray(codes)))
    reason = "" if written else error_text(output, path)
    closed = bool(output.close())
    if not (written and closed):
        reason = reason or error_text(output, path)
        raise PlateError(f"{path.name}: cannot be written ({reason}); check the disk's space and permissions")
