"""Strips that the learned fill is trained on: shots and made-up seams, straightened and cut to one size.

N batch, T rows across, S columns along, C colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.seams import learned, relight
from rotopaint_ai.seams.bank_fill import TABLES
from rotopaint_ai.training.models.fill.ribbons import Laid, laid

Array = npt.NDArray[Any]

ROWS, COLUMNS = learned.ROWS, 96  # of a strip to learn from
_FEWEST = 40  # matte samples that make a strip worth learning from


@dataclass(frozen=True, slots=True)
class Strips:
    """What is learnt from: input (N, T, S, 12), light of table, own, face, banks and true (N, 5, T, S, 3), wanted."""

    strip: Array
    light: Array
    wanted: Array

    def save(self, path: Path) -> None:
        """Keep them in a file."""
        with replacing(path) as beside, beside.open("wb") as stream:
            np.savez(stream, strip=self.strip, light=self.light, wanted=self.wanted)

    @classmethod
    def load(cls, path: Path) -> Strips:
        """Strips from a file."""
        with np.load(path) as kept:
            return cls(kept["strip"], kept["light"], kept["wanted"])


def cut(folders: Sequence[Path], seed: int, *, sizes: int, made_up: int) -> Strips:
    """Cut strips from shots. Raises: TrainingError where they hold none."""
    rng = np.random.default_rng(seed)
    found = [part for one in laid(folders, rng, every=1, sizes=sizes, made_up=made_up) for part in _parts(one, rng)]
    if not found:
        raise TrainingError("no seams in those shots; film some: python -m rotopaint_ai.stage seams FOLDER")
    return Strips(*(np.stack(part) for part in zip(*found)))


def _parts(one: Laid, rng: np.random.Generator) -> Iterator[tuple[Array, Array, Array]]:
    """A ribbon in pieces of ROWS x COLUMNS, all light relative to its exposure and as half floats."""
    scene = one.scene
    known = relight.sources(scene.light_TSC, scene.hole_TS)
    relit = relight.relight_in_turn(scene.light_TSC, scene.hole_TS, scene.ribbon.own_TS, TABLES)
    strip = learned.strip_of(known, relit, scene.hole_TS, scene.floor)
    table = relit[..., :3] + relit[..., 3:] * scene.light_TSC
    fields = [table, *(field.transpose(0, 2, 1) for field in (known.own, known.face, known.banks)), one.true_TSC]
    lit = np.stack(fields) - np.float32(one.exposure)
    wanted = scene.hole_TS & scene.ribbon.inside_TS & scene.ribbon.own_TS
    strip, lit, wanted = _as_rows(strip, 0), _as_rows(lit, 1), _as_rows(wanted, 0)
    if rng.random() < 0.5:
        strip, lit, wanted = strip[::-1], lit[:, ::-1], wanted[::-1]
    first = int(rng.integers(0, max(1, min(COLUMNS, wanted.shape[1] - COLUMNS + 1))))
    for start in range(first, wanted.shape[1] - COLUMNS + 1, COLUMNS):
        part = slice(start, start + COLUMNS)
        if wanted[:, part].sum() >= _FEWEST:
            yield strip[:, part].astype(np.float16), lit[:, :, part].astype(np.float16), wanted[:, part].copy()


def _as_rows(field: Array, axis: int) -> Array:
    """A field with ROWS rows round its middle: cut, or its edges repeated."""
    missing = ROWS - field.shape[axis]
    before = abs(missing) // 2
    if missing < 0:
        return field[(slice(None),) * axis + (slice(before, before + ROWS),)]
    around = [(0, 0)] * field.ndim
    around[axis] = (before, missing - before)
    return np.pad(field, around, "edge") if field.dtype != bool else np.pad(field, around)
