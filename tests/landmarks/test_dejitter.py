"""De-jitter: no motion inside a hold, no lag at a change of pose, less noise, and hand-placed landmarks stay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.landmarks.dejitter import LATENCY_FRAMES, Dejitter
from rotopaint_ai.landmarks.track import FrameLandmarks

from .dots import frame

Points = npt.NDArray[np.float64]


def face(seed: int = 0, n: int = 40) -> Points:
    return np.random.default_rng(seed).uniform(0, 300, (n, 2))


def run(frames: list[FrameLandmarks], dejitter: Dejitter | None = None) -> list[FrameLandmarks]:
    dejitter = dejitter or Dejitter()
    given = [item for landmarks in frames for item in dejitter.push(landmarks)] + dejitter.flush()
    assert [item.frame for item in given] == [item.frame for item in frames]
    return given


def noisy(points: Points, seed: int, sigma: float = 1.0) -> Points:
    return points + np.random.default_rng(1000 + seed).normal(0, sigma, points.shape)


def error(given: FrameLandmarks, truth: Points) -> float:
    return float(np.linalg.norm(given.points_LC - truth, axis=1).mean())


def test_a_hold_has_one_value_exactly() -> None:
    frames = [frame(1001 + index, noisy(face(), index), held_from=1001 + index // 3 * 3) for index in range(12)]
    given = run(frames)
    for index in range(0, 12, 3):
        for other in (index + 1, index + 2):
            np.testing.assert_array_equal(given[other].points_LC, given[index].points_LC)
            np.testing.assert_array_equal(given[other].expected_error_px_L, given[index].expected_error_px_L)


def test_a_long_hold_comes_out_in_time_and_stays_one() -> None:
    dejitter, given, waiting = Dejitter(), [], 0
    for index in range(60):
        given += dejitter.push(frame(1001 + index, noisy(face(), index), held_from=1001))
        waiting = max(waiting, index + 1 - len(given))
    given += dejitter.flush()
    assert waiting <= LATENCY_FRAMES
    assert len(given) == 60
    assert all((item.points_LC == given[0].points_LC).all() for item in given)


@pytest.mark.parametrize("window", [0, 1, 2])
def test_a_frame_comes_out_as_soon_as_its_neighbours_are_closed(window: int) -> None:
    dejitter = Dejitter(window=window)
    given = [[item.frame for item in dejitter.push(frame(1001 + index, face()))] for index in range(window + 4)]
    assert given == [[]] * (window + 1) + [[1001], [1002], [1003]]


def test_memory_stays_flat() -> None:
    dejitter = Dejitter()
    for index in range(300):
        dejitter.push(frame(1001 + index, noisy(face(), index)))
        assert len(dejitter._exposures) <= LATENCY_FRAMES + 2 * dejitter.window + 1


def test_noise_falls_where_a_held_face_is_carried_by_the_camera() -> None:
    truths = [face() * (1 + 0.004 * index) + (3.0 * index, -2.0 * index) for index in range(20)]
    frames = [frame(1001 + index, noisy(truth, index), error=1.25) for index, truth in enumerate(truths)]
    before = np.mean([error(item, truth) for item, truth in zip(frames, truths)])
    after = np.mean([error(item, truth) for item, truth in zip(run(frames), truths)])
    assert before == pytest.approx(1.25, rel=0.05)  # the mean length of Gaussian noise of deviation 1 in x and y
    assert after < 0.55 * before  # five independent readings would give 0.45


@pytest.mark.parametrize("announced", [0.6, 1.25, 3.0])
def test_nothing_lags_at_a_face_swap(announced: float) -> None:
    """A mouth of ten landmarks jumps by 8 pixels midway; less than 3 % of the jump may leak to other frames."""
    rest = face()
    rest[:10] = face(5, 10) / 6 + 120
    open_mouth = rest.copy()
    open_mouth[:10] += (0.0, 8.0)
    truths = [rest] * 10 + [open_mouth] * 10
    lags = []
    for seed in range(5):
        frames = [frame(1001 + i, noisy(t, 100 * seed + i), error=announced) for i, t in enumerate(truths)]
        given = run(frames)
        lags += [(given[10].points_LC - open_mouth)[:10, 1].mean(), (given[9].points_LC - rest)[:10, 1].mean()]
    assert abs(np.mean(lags[0::2])) < 0.03 * 8 + 0.15  # 0.15: three standard errors of fifty readings
    assert abs(np.mean(lags[1::2])) < 0.03 * 8 + 0.15


def test_a_turning_head_is_not_smoothed_flat() -> None:
    """Real motion without noise stays unchanged."""
    frames = [
        frame(1001 + i, face() + 12 * np.sin(face() / 40 + i)[:, ::-1], error=1.0, held_from=1001 + i) for i in range(9)
    ]
    for item, own in zip(run(frames), frames):
        np.testing.assert_allclose(item.points_LC, own.points_LC, atol=0.05)


def test_hand_points_never_move_and_rule_their_hold() -> None:
    frames = [frame(1001 + index, noisy(face(), index), held_from=1001 + index // 2 * 2) for index in range(8)]
    frames[3] = frames[3].with_hand({7: (55.5, 66.25)})
    given = run(frames)
    np.testing.assert_array_equal(given[3].points_LC[7], [55.5, 66.25])
    np.testing.assert_array_equal(given[2].points_LC[7], [55.5, 66.25])  # the same exposure
    assert given[3].hand_L[7]
    assert not given[2].hand_L[7]
    assert given[3].expected_error_px_L[7] == 0


def test_two_hands_in_one_hold_both_stay() -> None:
    frames = [frame(1001 + index, face(), held_from=1001) for index in range(3)]
    frames[0] = frames[0].with_hand({0: (1.0, 2.0)})
    frames[2] = frames[2].with_hand({0: (3.0, 4.0)})
    assert [tuple(item.points_LC[0]) for item in run(frames)] == [(1, 2), (1, 2), (3, 4)]


def test_hidden_and_lost_readings_have_no_weight() -> None:
    frames = [frame(1001 + index, face(), error=1.0) for index in range(5)]
    visible = np.ones(40)
    visible[3] = 0.1
    moved = face()
    moved[3] += 2.0
    frames[1] = replace(frames[1], points_LC=moved, visible_L=visible)
    frames[3] = replace(frames[3], points_LC=face() * 0.5, lost="gone")
    given = run(frames)
    np.testing.assert_allclose(given[2].points_LC, face(), atol=1e-6)
    np.testing.assert_array_equal(given[3].points_LC, face() * 0.5)


def test_a_window_of_zero_only_makes_holds_one() -> None:
    frames = [frame(1001 + index, noisy(face(), index), held_from=1001 + index // 2 * 2) for index in range(6)]
    given = run(frames, Dejitter(window=0))
    np.testing.assert_allclose(given[0].points_LC, (frames[0].points_LC + frames[1].points_LC) / 2)


@pytest.mark.shared
@pytest.mark.parametrize("shot", ["A_pip/test01", "A_pip/test02", "B_marrow/test01", "B_marrow/test02"])
def test_noise_on_true_landmarks_of_rendered_puppets_falls(shared: Path, shot: str) -> None:
    items = json.loads((shared / "data/puppets" / shot / "truth.json").read_text(encoding="utf-8"))["frames"]
    truths = [np.array([at[:2] for at in item["landmarks"].values()]) for item in items]
    seen = np.array([[bool(at[2]) for at in item["landmarks"].values()] for item in items])
    frames = [
        replace(
            frame(item["frame"], noisy(truth, index), held_from=item.get("repeats") or item["frame"], error=1.25),
            visible_L=np.where(seen[index], 0.95, 0.05),
        )
        for index, (item, truth) in enumerate(zip(items, truths))
    ]
    before, after = (
        np.array([np.linalg.norm(item.points_LC - truth, axis=1) for item, truth in zip(rows, truths)])[seen]
        for rows in (frames, run(frames))
    )
    assert after.mean() < 0.82 * before.mean()
    assert np.percentile(after, 95) < 0.85 * np.percentile(before, 95)
