"""Small fitted networks of three layers as text: their numbers as little-endian floats in base 85.

`scripts/fit_relight.py` and `scripts/fit_widths.py` write them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Three = tuple[Array, Array, Array]
_LINE = 110  # characters


def unpack_layers(
    numbers: str, dtype: str, n_in: int, units: int, n_out: int, *, n_scales: int = 0
) -> tuple[Array, ...]:
    """Decode a text: `n_scales` arrays (n_in,), then weights (in, out) and bias (out,) of each of three layers."""
    flat = np.frombuffer(base64.b85decode(numbers), dtype).astype(np.float32)
    shapes: list[tuple[int, ...]] = [(n_in,)] * n_scales
    for n_from, n_to in ((n_in, units), (units, units), (units, n_out)):
        shapes += [(n_from, n_to), (n_to,)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return tuple(part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True))


def layers_of(arrays: Sequence[Array]) -> tuple[Three, Three]:
    """Weights and biases from a list that alternates them."""
    a, b, c, d, e, f = arrays
    return (a, c, e), (b, d, f)


def pack_lines(arrays: Iterable[Array], dtype: str) -> str:
    """Encode arrays as lines of a Python module."""
    packed = base64.b85encode(b"".join(each.astype(dtype).tobytes() for each in arrays)).decode()
    return "\n".join(f'    "{packed[k : k + _LINE]}"' for k in range(0, len(packed), _LINE))
