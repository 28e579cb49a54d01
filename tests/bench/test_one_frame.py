"""What the inference benchmark measures with: heat-maps decoded by hand, turns taken, peers of the right shape."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest
import torch

from rotopaint_ai.bench import infer
from rotopaint_ai.bench.one_frame import decode, take_turns
from rotopaint_ai.bench.peer_nets import PEERS
from rotopaint_ai.errors import UsageError


def test_maxima_move_a_quarter_pixel_towards_the_higher_neighbour() -> None:
    heat = np.zeros((2, 8, 10), np.float32)
    heat[0, 3, 6] = 1.0
    heat[0, 3, 7] = 0.5  # right of it is higher
    heat[0, 2, 6] = 0.2  # above it is higher
    heat[1, 0, 9] = 1.0  # a corner: its neighbours inside decide
    np.testing.assert_allclose(decode(heat)[0], [6.75, 3.25])
    x, y = decode(heat)[1]
    assert abs(x - 9.5) <= 0.25
    assert abs(y - 0.5) <= 0.25


def test_everybody_has_a_turn_in_every_round() -> None:
    seen: list[str] = []
    turns: dict[str, Any] = {name: lambda plate, name=name: seen.append(name) for name in ("a", "b")}
    times = take_turns(turns, np.zeros((1, 1, 3), np.float32), 4)
    assert {name: len(values) for name, values in times.items()} == {"a": 4, "b": 4}
    assert seen == ["a", "b"] * 9  # five to warm up


@pytest.mark.parametrize("name", PEERS)
def test_peers_answer_at_a_quarter_of_the_crop(name: str) -> None:
    with torch.no_grad():
        heat = PEERS[name](5).eval()(torch.zeros(1, 3, 64, 64))
    assert heat.shape == (1, 5, 16, 16)


def test_absurd_counts_are_refused() -> None:
    with pytest.raises(UsageError, match="--rounds 0"):
        infer.measure(argparse.Namespace(model=None, threads=1, rounds=0))
