"""The measurement: frames per second of every reader on every source, with warm and cold cache, alternately."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rotopaint_ai.bench.loading.encoded_shots import (
    AS_TRUE,
    CLIPS,
    N_COMPARED,
    PLANES,
    RAW,
    EncodedShot,
    encode_all,
    psnr_db,
    synthetic_shot,
)
from rotopaint_ai.bench.loading.readers import forget, list_missing, readers_of

CLIP = 16
OURS, PEER = ("shards of JPEG", AS_TRUE, PLANES, RAW, CLIPS), "PyAV"
READER = "mapped tar"
WANTED = {"mp4 h264, default keys": 10.0, "mp4 h264, key every 12": 3.0}  # goal P4


@dataclass(frozen=True, slots=True)
class LoadingSettings:
    """Settings of the measurement.

    `n_frames` and `size` of the shot, `n_clips` per measurement, `n_rounds` of repeats, `n_workers` of the parallel
    measurement; `sources` and `readers` select by parts of names (empty: all).
    """

    n_frames: int
    size: int
    n_clips: int
    n_rounds: int
    n_workers: int
    sources: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadRate:
    """Frames per second of wall time, and per second of processor time, which is more reliable on a busy machine."""

    clock: float
    processor: float


@dataclass(frozen=True, slots=True)
class Way:
    """A row of the table: a source, a reader, the order of its clips, the cache, and the number of processes."""

    source: str
    reader: str
    order: str
    cache: str
    workers: int


def measure_all(folder: Path, settings: LoadingSettings) -> dict[str, Any]:
    """Measure all readers alternately, round by round; readers that fail are reported with the reason."""
    found = encode_all(folder, settings.n_frames, settings.size, settings.sources)
    sources = {source.name: source for source in found}
    rates: dict[Way, list[ReadRate]] = {}
    failed: dict[str, str] = {}
    for round_ in range(settings.n_rounds):
        for way in _ways(sources.values(), settings):
            if f"{way.source}: {way.reader}" in failed:
                continue
            try:
                rates.setdefault(way, []).append(_read_rate(sources[way.source], way, settings, round_))
            except Exception as error:  # a failure of another library is a result too
                failed[f"{way.source}: {way.reader}"] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return _report_content(sources, {way: found for way, found in rates.items() if found}, failed, settings)


def _ways(sources: Any, settings: LoadingSettings) -> Iterator[Way]:
    for source in sources:
        for reader in readers_of(source):
            if settings.readers and not any(text in reader for text in settings.readers):
                continue
            for order in ("sequential", "random"):
                for cache in ("warm", "cold"):
                    yield Way(source.name, reader, order, cache, 1)
            if settings.n_workers > 1:
                yield Way(source.name, reader, "random", "warm", settings.n_workers)


def _starts(source: EncodedShot, order: str, settings: LoadingSettings, round_: int) -> list[int]:
    """First frames of the clips; the same for every reader of a round."""
    if order == "sequential":
        return [at * CLIP % (source.n_frames - CLIP) for at in range(settings.n_clips)]
    rng = np.random.default_rng(round_)
    last = source.n_frames - CLIP  # one clip from each part of the shot, so that few clips represent it
    return [int(last * (part + rng.random()) / settings.n_clips) for part in rng.permutation(settings.n_clips)]


def _read_rate(source: EncodedShot, way: Way, settings: LoadingSettings, round_: int) -> ReadRate:
    """Frames per second, including the time to open the source."""
    starts = _starts(source, way.order, settings, round_)
    if way.cache == "cold":
        forget(source)
    else:
        for path in source.files:
            path.read_bytes()
    if way.workers > 1:
        return _rate_of_many(source, way, starts)
    begin, used = time.perf_counter(), _used_s()
    n_frames = _read_clips(source, way.reader, starts)
    return ReadRate(n_frames / (time.perf_counter() - begin), n_frames / max(_used_s() - used, 1e-6))


def _used_s() -> float:
    """Processor time of this process and of its finished child processes."""
    times = os.times()  # os.times counts hundredths of a second, too coarse for this process
    return time.process_time() + times.children_user + times.children_system


def _rate_of_many(source: EncodedShot, way: Way, starts: Sequence[int]) -> ReadRate:
    parts = [starts[at :: way.workers] for at in range(way.workers)]
    with ProcessPoolExecutor(way.workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_read_clips, [source] * way.workers, [way.reader] * way.workers, [[0]] * way.workers))
        begin = time.perf_counter()
        counts = list(pool.map(_timed_clips, [source] * way.workers, [way.reader] * way.workers, parts))
        n_frames, taken = sum(n for n, _ in counts), time.perf_counter() - begin
    return ReadRate(n_frames / taken, n_frames / max(sum(used for _, used in counts), 1e-6))


def _timed_clips(source: EncodedShot, reader: str, starts: Sequence[int]) -> tuple[int, float]:
    """Frames read, and the processor time that it took."""
    used = _used_s()
    n_frames = _read_clips(source, reader, starts)
    return n_frames, _used_s() - used


def _read_clips(source: EncodedShot, reader: str, starts: Sequence[int]) -> int:
    """Read clips and return the number of frames. Raises ValueError where a reader gives too few."""
    read = readers_of(source)[reader](source.path)
    n_frames = 0
    for start in starts:
        clip = read(start, CLIP)
        if len(clip) != CLIP:
            raise ValueError(f"gave {len(clip)} of {CLIP} frames at {start}")
        n_frames += len(clip)
    return n_frames


def _report_content(
    sources: dict[str, EncodedShot], rates: dict[Way, list[ReadRate]], failed: dict[str, str], settings: LoadingSettings
) -> dict[str, Any]:
    rows = [{**asdict(way), **_medians(found)} for way, found in rates.items()]
    warm = [row for row in rows if (row["order"], row["cache"], row["workers"]) == ("random", "warm", 1)]
    best = max(warm, key=lambda row: float(row["frames_per_s"]))
    return {
        "benchmark": "load",
        "settings": asdict(settings),
        "clip": CLIP,
        "cold": "each file flushed and dropped from the page cache with posix_fadvise before a measurement",
        "psnr_db": {name: _fidelity_db(source, settings.size) for name, source in sources.items()},
        "megabytes": {name: round(source.n_bytes / 1e6, 2) for name, source in sources.items()},
        "rows": rows,
        "ratios": _ratios(rates),
        "fastest_random": {key: best[key] for key in ("source", "reader", "frames_per_s")},
        "failed": failed,
        "not_installed": list_missing(),
    }


def _fidelity_db(source: EncodedShot, size: int) -> float:
    """The quality of a source: mean PSNR of its first frames against the original shot."""
    ways = readers_of(source)
    pictures = ways.get(PEER, next(iter(ways.values())))(source.path)(0, N_COMPARED)
    if pictures.dtype != np.uint8:
        pictures = pictures.astype(np.float32) * 255
    return round(psnr_db(list(pictures), list(islice(synthetic_shot(N_COMPARED, size), N_COMPARED))), 2)


def _medians(found: Sequence[ReadRate]) -> dict[str, float]:
    return {
        "frames_per_s": round(median(rate.clock for rate in found), 1),
        "frames_per_processor_s": round(median(rate.processor for rate in found), 1),
    }


def _ratios(rates: dict[Way, list[ReadRate]]) -> list[dict[str, Any]]:
    """Our rate divided by PyAV's in each round, for random clips."""
    found = []
    for source, wanted in WANTED.items():
        for ours in OURS:
            for cache in ("warm", "cold"):
                pairs = zip(
                    rates.get(Way(ours, READER, "random", cache, 1), []),
                    rates.get(Way(source, PEER, "random", cache, 1), []),
                )
                if both := list(pairs):
                    names = {"ours": ours, "over": f"{PEER} on {source}", "cache": cache}
                    found.append({**names, **_rate_ratio(both), "wanted": wanted})
    return found


def _rate_ratio(pairs: Sequence[tuple[ReadRate, ReadRate]]) -> dict[str, float]:
    clock = sorted(a.clock / b.clock for a, b in pairs)
    processor = median(a.processor / b.processor for a, b in pairs)
    return {"ratio": round(median(clock), 2), "lowest": round(clock[0], 2), "by_processor_time": round(processor, 2)}
