"""Small made-up plates: the writers that the tests of this room share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO as oiio
from numpy.typing import NDArray

Array = NDArray[Any]

HALF, FLOAT, UINT = "half", "float", "uint"


def picture(width: int = 37, height: int = 41, channels: int = 3, *, seed: int = 1) -> Array:
    """Noise on a ramp, 0..1, float32."""
    rng = np.random.default_rng(seed)
    ramp = np.linspace(0.1, 0.7, width, dtype=np.float32)[None, :, None]
    return np.asarray(np.clip(ramp + 0.2 * rng.random((height, width, channels), np.float32), 0, 1), np.float32)


def save(
    path: Path,
    codes: Array,
    *,
    names: tuple[str, ...] = (),
    attributes: Mapping[str, Any] | None = None,
    data_at: tuple[int, int] = (0, 0),
    display: tuple[int, int, int, int] | None = None,
    tile: int = 0,
) -> Path:
    """Write codes (H, W, C) of any type with OpenImageIO."""
    kind = {"float16": HALF, "float32": FLOAT, "uint32": UINT}.get(codes.dtype.name, codes.dtype.name)
    spec = oiio.ImageSpec(codes.shape[1], codes.shape[0], codes.shape[2], oiio.TypeDesc(kind))
    if names:
        spec.channelnames = names
    spec.x, spec.y = data_at
    if display is not None:
        spec.full_x, spec.full_y, spec.full_width, spec.full_height = display
    spec.tile_width = spec.tile_height = tile
    for key, value in (attributes or {}).items():
        spec.attribute(key, value)
    output = oiio.ImageOutput.create(str(path))
    assert output.open(str(path), spec), output.geterror()
    written = output.write_image(np.ascontiguousarray(codes)) if not tile else output.write_image(codes)
    assert written, output.geterror()
    output.close()
    return path


def load(path: Path, kind: str) -> list[Array]:
    """All channels of all parts, (H, W, C) each, in one type, with unassociated alpha."""
    config = oiio.ImageSpec()
    config.attribute("oiio:UnassociatedAlpha", 1)
    source, parts = oiio.ImageInput.open(str(path), config), []
    while source.seek_subimage(len(parts), 0):
        found = np.asarray(source.read_image(len(parts), 0, 0, source.spec().nchannels, oiio.TypeDesc(kind)))
        parts.append(found[..., None] if found.ndim == 2 else found)
    source.close()
    return parts


def metadata(path: Path) -> dict[str, Any]:
    """OpenImageIO's metadata of a file's first part, windows and channels included."""
    source = oiio.ImageInput.open(str(path))
    spec = source.spec()
    found: dict[str, Any] = {a.name: str(a.value) for a in spec.extra_attribs}
    found |= {key: getattr(spec, key) for key in ("x", "y", "width", "height")}
    found |= {key: getattr(spec, key) for key in ("full_x", "full_y", "full_width", "full_height")}
    found |= {"channels": tuple(spec.channelnames), "format": str(spec.format), "tile": spec.tile_width}
    source.close()
    return found


def spots(height: int, width: int) -> Array:
    """A mask of a thin diagonal and a few single pixels, corners included."""
    mask = np.zeros((height, width), bool)
    steps = np.arange(min(height, width) // 2)
    mask[steps + height // 4, steps + width // 4] = True
    mask[0, 0] = mask[-1, -1] = mask[height // 2, 0] = True
    return mask
