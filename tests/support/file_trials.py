"""Try files one by one: opened or refused, and whether a clean plate keeps all untouched codes.

Used by the table of formats in the tests, and by a TD who wants to know how a studio's files fare.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.plates.clean_writer import clean_suffix, write_clean
from rotopaint_ai.plates.plate import Frame, Plate, open_plate


@dataclass(frozen=True, slots=True)
class Row:
    """One file. `codes_mean`: mean of each channel's codes over their maximum, None where refused or not finite."""

    name: str
    opened: bool
    text: str
    size: str = ""
    codes: str = ""
    colourspace: str = ""
    clean: str = ""
    codes_mean: tuple[float, ...] | None = None
    seconds: float = 0.0


def look(path: Path, scratch: Path) -> Row:
    """Open a file, read its frame, write a clean plate into `scratch` and compare. Only bugs raise."""
    began = time.perf_counter()
    try:
        with open_plate(path) as plate:
            frame = plate.read(_number(plate, path))
            clean = _clean(plate, frame, scratch)
    except RotopaintError as error:
        return Row(path.name, False, f"{type(error).__name__}: {error}", seconds=time.perf_counter() - began)
    height, width, channels = frame.codes.shape
    x, y = frame.origin
    return Row(
        name=path.name,
        opened=True,
        text="",
        size=f"{width}x{height}{x:+d}{y:+d} in {frame.width}x{frame.height}",
        codes=f"{channels} {frame.codes.dtype} {plate.bit_depth}",
        colourspace=frame.colourspace,
        clean=clean,
        codes_mean=_means(frame),
        seconds=time.perf_counter() - began,
    )


def survey(paths: Iterable[Path], scratch: Path) -> tuple[Row, ...]:
    """`look` at each file in turn."""
    return tuple(look(path, scratch) for path in paths)


def as_text(rows: Sequence[Row]) -> str:
    """The rows as a table of plain text, with totals in the last line."""
    lines = [f"{'opened' if row.opened else 'refused':8}{_short(row.name, 60):62}{_said(row)}" for row in rows]
    n_opened = sum(row.opened for row in rows)
    slowest = max((row.seconds for row in rows), default=0.0)
    summary = f"{len(rows)} files: {n_opened} opened, {len(rows) - n_opened} refused; slowest {slowest:.2f} s"
    return "\n".join([*lines, summary])


def _said(row: Row) -> str:
    if not row.opened:
        return row.text
    return f"{row.size:32}{row.codes:24}{row.colourspace:10}clean: {row.clean}"


def _short(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length // 2 - 2]}...{name[-(length // 2 - 1) :]}"


def _number(plate: Plate, path: Path) -> int:
    if plate.is_movie:
        return 1
    return next(number for number in plate.frames if plate.path_of(number) == path)


def _means(frame: Frame) -> tuple[float, ...] | None:
    with np.errstate(invalid="ignore", over="ignore"):
        means = frame.codes.mean(axis=(0, 1), dtype=np.float64) / (frame.maximum or 1)
    return tuple(float(mean) for mean in means) if np.isfinite(means).all() else None


def _clean(plate: Plate, frame: Frame, scratch: Path) -> str:
    """Write with every third pixel of some rows changed; compare bits of the others after reading back."""
    height, width = int(frame.codes.shape[0]), int(frame.codes.shape[1])
    changed = np.zeros((height, width), bool)
    changed[height // 3 : height // 2 + 1, ::3] = True
    rgb = frame.rgb.copy()
    rgb[changed] = 0.25
    target = scratch / f"clean{clean_suffix(plate)}"
    write_clean(target, frame, rgb, changed)
    with open_plate(target) as again:
        back = again.read(again.frames[0])
    if back.codes.shape != frame.codes.shape or back.codes.dtype != frame.codes.dtype:
        return "another kind of codes"
    same = back.codes[~changed].tobytes() == frame.codes[~changed].tobytes()
    return f"{target.suffix} identical" if same else f"{target.suffix} DIFFERS"
