"""What the inference benchmark measures with: heat-maps decoded by hand, turns taken, peers of the right shape."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest
import torch

from rotopaint_ai.bench import infer
from rotopaint_ai.bench.one_frame import take_turns
from rotopaint_ai.bench.peer_nets import PEERS, decode_heat_maps
from rotopaint_ai.errors import UsageError


def test_maxima_move_a_quarter_pixel_towards_the_higher_neighbour() -> None:
    heat = np.zeros((2, 8, 10), np.float32)
    heat[0, 3, 6] = 1.0
    heat[0, 3, 7] = 0.5  # right of it is higher
    heat[0, 2, 6] = 0.2  # above it is higher
    heat[1, 0, 9] = 1.0  # a corner: its neighbours inside decide
    np.testing.assert_allclose(decode_heat_maps(heat)[0], [6.75, 3.25])
    x, y = decode_heat_maps(heat)[1]
    assert abs(x - 9.5) <= 0.25
    assert abs(y - 0.5) <= 0.25


def test_every_network_runs_once_per_round() -> None:
    seen: list[str] = []
    turns: dict[str, Any] = {name: lambda plate, name=name: seen.append(name) for name in ("a", "b")}
    times = take_turns(turns, np.zeros((1, 1, 3), np.float32), 4)
    assert {name: len(values) for name, values in times.items()} == {"a": 4, "b": 4}
    assert seen == ["a", "b"] * 9  # five to warm up


SHAPES = {"heat": (1, 5, 64, 64), "x": (1, 5, 512), "y": (1, 5, 512), "points": (1, 10)}


@pytest.mark.parametrize("name", PEERS)
def test_peers_answer_as_published_and_are_decoded_inside_the_crop(name: str) -> None:
    peer = PEERS[name]
    with torch.no_grad():
        said = peer.build(5).eval()(torch.zeros(1, 3, peer.size_px, peer.size_px))
    outputs = said if isinstance(said, tuple) else (said,)
    assert {at: tuple(value.shape) for at, value in zip(peer.outputs, outputs)} == {
        at: SHAPES[at] for at in peer.outputs
    }
    assert peer.decode([value.numpy() for value in outputs]).shape == (5, 2)


def test_bins_are_half_pixels_and_numbers_are_shares_of_the_crop() -> None:
    x, y = np.zeros((1, 1, 512), np.float32), np.zeros((1, 1, 512), np.float32)
    x[0, 0, 101], y[0, 0, 300] = 1, 1
    np.testing.assert_allclose(PEERS["SimCC, MobileNetV2, 256 px"].decode([x, y]), [[50.75, 150.25]])
    shares = np.array([[0.25, 0.5]], np.float32)
    np.testing.assert_allclose(PEERS["PFLD, 112 px"].decode([shares]), [[28.0, 56.0]])


def test_sizes_are_the_papers() -> None:
    def millions(name: str) -> float:
        return sum(value.numel() for value in PEERS[name].build(17).parameters()) / 1e6

    # Xiao et al.'s heads on a MobileNetV2 (2.2 M without its classifier) and a ResNet-18 (11.2 M): 9.6 and 15.4 M in
    # the model zoos that ship them
    assert abs(millions("Simple Baseline, MobileNetV2, 256 px") - 9.6) < 0.1
    assert abs(millions("Simple Baseline, ResNet-18, 256 px") - 15.4) < 0.1


def test_absurd_counts_are_refused() -> None:
    with pytest.raises(UsageError, match="--rounds 0"):
        infer.measure(argparse.Namespace(model=None, threads=1, rounds=0))
