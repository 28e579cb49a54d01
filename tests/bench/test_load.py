"""Every way to read the made-up shot gives its frames, so that rates compare the same work."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.bench import load
from rotopaint_ai.bench.loading.encoded_shots import AS_TRUE, CLIPS, PLANES, RAW, encode_all, synthetic_shot
from rotopaint_ai.bench.loading.readers import forget, readers_of
from rotopaint_ai.bench.loading.reading_rates import LoadingSettings, measure_all
from rotopaint_ai.errors import UsageError


def test_every_reader_gives_the_frames_that_were_asked_for(tmp_path: Path) -> None:
    meant = np.stack(list(synthetic_shot(40, 96))).astype(np.float32)
    n_ways = 0
    for source in encode_all(tmp_path, 40, 96):
        for name, way in readers_of(source).items():
            try:
                read = way(source.path)
            except (RuntimeError, OSError):  # a peer whose own libraries are not on this machine
                continue
            for first in (0, 13, 24):
                clip = read(first, 16).astype(np.float32)
                clip = clip * 255 if source.name.startswith("EXR") else clip
                error = np.abs(clip - meant[first : first + 16]).mean(axis=(1, 2, 3))
                beside = np.abs(clip[1:] - meant[first : first + 15]).mean(axis=(1, 2, 3))  # a frame off
                assert (error[1:] < beside).all(), f"{source.name}: {name} at {first}"
            n_ways += 1
        forget(source)
    assert n_ways >= 16


def test_the_table_holds_every_way_and_our_ratio_over_the_peer(tmp_path: Path) -> None:
    content = measure_all(tmp_path, LoadingSettings(n_frames=40, size=64, n_clips=2, n_rounds=1, n_workers=1))
    rows = content["rows"]
    assert {row["cache"] for row in rows} == {"warm", "cold"}
    assert all(row["frames_per_s"] > 0 for row in rows)
    assert all(row["frames_per_processor_s"] > 0 for row in rows)
    assert [(ratio["over"], ratio["ours"], ratio["cache"]) for ratio in content["ratios"]] == [
        (f"PyAV on mp4 h264, {keys}", ours, cache)
        for keys in ("default keys", "key every 12")
        for ours in ("shards of JPEG", AS_TRUE, PLANES, RAW, CLIPS)
        for cache in ("warm", "cold")
    ]
    assert not content["failed"]
    fidelity, megabytes = content["psnr_db"], content["megabytes"]
    assert fidelity["PNG files"] > 60  # lossless
    assert fidelity["mp4 h264, default keys"] <= fidelity[AS_TRUE] < fidelity["shards of JPEG"]
    assert megabytes[AS_TRUE] < megabytes["shards of JPEG"]
    assert megabytes[CLIPS] < megabytes["shards of JPEG"] / 2


def test_absurd_settings_are_refused() -> None:
    parser = argparse.ArgumentParser()
    load.add_arguments(parser)
    with pytest.raises(UsageError, match="wanted 32 frames or more"):
        load.measure(parser.parse_args(["--frames", "3"]))
