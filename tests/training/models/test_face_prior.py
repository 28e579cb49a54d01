"""The face's prior on a head that turns: detected landmarks move to positions that the head allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rotopaint_ai.shapes.deformable_head import fit_head
from rotopaint_ai.training.models.face_prior import FacePrior, PriorSettings, _apply_step, _covariance_of
from rotopaint_ai.training.models.landmarks.net import CropModel, LandmarkNet, LandmarkOutput
from rotopaint_ai.training.pack import select_models as selection
from rotopaint_ai.training.pack.select_models import Fold, apply_prior, choose_prior, split_folds
from rotopaint_ai.training.trainer.onnx_export import export_checked

HEAD = np.random.default_rng(5).normal(0, 1, (30, 3)) * [1.0, 1.2, 0.6]
MIRROR = list(range(30))


def faces(n: int, seed: int, head: np.ndarray = HEAD, yaws: tuple[float, float] = (-0.6, 0.6)) -> np.ndarray:
    """Orthographic views [n, 30, 2] of one rigid head, turned by up to 35 degrees, in pixels."""
    rng = np.random.default_rng(seed)
    views = []
    for _ in range(n):
        yaw, pitch = rng.uniform(*yaws), rng.uniform(-0.3, 0.3)
        x = np.array([np.cos(yaw), 0, np.sin(yaw)])
        y = np.array([np.sin(yaw) * np.sin(pitch), np.cos(pitch), -np.cos(yaw) * np.sin(pitch)])
        views.append(head @ np.stack([x, y], 1) * rng.uniform(45, 55) + rng.uniform(90, 110, 2))
    return np.array(views)


def smiling(n: int, seed: int) -> np.ndarray:
    """Views [n, 30, 2] of the head with three independently moving parts, also in depth."""
    rng, moves = np.random.default_rng(seed), np.random.default_rng(77)
    motions = np.zeros((3, 30, 3))
    for at, part in enumerate((slice(0, 8), slice(8, 14), slice(14, 17))):
        motions[at, part] = moves.normal(0, 0.15, (part.stop - part.start, 3))
    moved = HEAD + np.tensordot(rng.normal(0, 1, (n, 3)), motions, 1)
    return np.concatenate([faces(1, int(rng.integers(1 << 30)), head) for head in moved])


def all_seen(found: np.ndarray) -> np.ndarray:
    return np.ones(found.shape[:2])


def even(found: np.ndarray) -> np.ndarray:
    """Isotropic errors."""
    return np.zeros(found.shape)


def whole(found: np.ndarray, known: np.ndarray | None = None) -> tuple[Fold, ...]:
    """All samples as one fold, with a head from the keyed frames."""
    return split_folds(faces(60, 0) if known is None else known, found, MIRROR, joins=False)


def chosen(parts: Sequence[Fold], *held: np.ndarray) -> FacePrior | None:
    choice = choose_prior([parts], *held)
    return choice and choice.prior


def turned_by(vectors: np.ndarray, angles: np.ndarray) -> np.ndarray:
    x, y, cos, sin = vectors[..., 0], vectors[..., 1], np.cos(angles), np.sin(angles)
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)


def test_a_hidden_landmark_is_found_by_the_others() -> None:
    head = fit_head(faces(60, 0), MIRROR)
    assert head is not None
    true, rng = faces(40, 9), np.random.default_rng(9)
    found = true + rng.normal(0, 0.5, true.shape)
    found[:, :8] += rng.normal(0, 5.0, (40, 1, 2))  # the far side shifts as a whole, which the network does not know
    seen = np.ones((40, 30))
    seen[:, :8] = 0.05
    prior = FacePrior(head, PriorSettings(error_scale=0.7, noise_floor=0.003))
    known, unknown = (
        apply_prior(prior, found, np.ones((40, 30)), part, even(found))[0] for part in (seen, np.ones((40, 30)))
    )
    off = [np.linalg.norm(points - true, axis=2)[:, :8].mean() for points in (known, unknown)]
    assert off[0] < 0.6 * off[1]


def test_noise_that_no_head_could_show_is_removed() -> None:
    head = fit_head(faces(60, 0), MIRROR)
    assert head is not None
    true = faces(40, 1)
    rng = np.random.default_rng(2)
    error = np.full((40, 30), 0.5)
    error[:, :6] = 4.0  # six landmarks are inaccurate, and the network knows it
    found = true + rng.normal(0, 0.8, true.shape) * error[..., None]
    prior = FacePrior(head, PriorSettings(error_scale=0.8, noise_floor=0.003))
    drawn, left = apply_prior(prior, found, error, all_seen(found), even(found))
    before, after = (np.linalg.norm(points - true, axis=2) for points in (found, drawn))
    assert after[:, :6].mean() < 0.25 * before[:, :6].mean()  # the other 24 determine their position on a rigid head
    assert after[:, 6:].mean() < before[:, 6:].mean()
    assert (left[:, :6] < 0.5 * error[:, :6]).all()


def test_a_landmark_that_contradicts_all_others_counts_less() -> None:
    head = fit_head(faces(60, 0), MIRROR)
    assert head is not None
    true = faces(20, 3)
    found = true.copy()
    found[:, 4] += 15.0  # confident and wrong
    prior = FacePrior(head, PriorSettings(error_scale=1.0, noise_floor=0.003))
    drawn, _ = apply_prior(prior, found, np.full((20, 30), 0.6), all_seen(found), even(found))
    off = np.linalg.norm(drawn - true, axis=2)
    assert off[:, 4].mean() < 3.0
    assert np.delete(off, 4, axis=1).mean() < 0.5


def test_places_turns_and_sizes_make_no_difference() -> None:
    head = fit_head(faces(60, 0), MIRROR)
    assert head is not None
    prior = FacePrior(head, PriorSettings(error_scale=0.5, noise_floor=0.004))
    found = faces(5, 4) + np.random.default_rng(0).normal(0, 1, (5, 30, 2))
    drawn, left = apply_prior(prior, found, np.ones((5, 30)), all_seen(found), even(found))
    turn = 1.7 * np.array([[0.8, -0.6], [0.6, 0.8]])
    moved, moved_left = apply_prior(
        prior, found @ turn.T + [40, -7], np.full((5, 30), 1.7), all_seen(found), even(found)
    )
    np.testing.assert_allclose(moved, drawn @ turn.T + [40, -7], atol=0.02)
    np.testing.assert_allclose(moved_left, left * 1.7, rtol=1e-3)


def test_points_are_drawn_along_their_edges_more_than_off_them() -> None:
    head = fit_head(faces(60, 0), MIRROR)
    assert head is not None
    true, rng = faces(40, 11), np.random.default_rng(12)
    angle = rng.uniform(0, np.pi, (40, 30))
    off = rng.normal(0, 1.0, true.shape) * (4.0, 0.3)  # on edges, but anywhere along them
    found = true + turned_by(off, angle)
    lean = np.log(4.0 / 0.3) * np.stack([np.cos(2 * angle), np.sin(2 * angle)], axis=-1)
    error = np.full((40, 30), 2.0)
    blind, covariance = (
        apply_prior(
            FacePrior(head, PriorSettings(error_scale=0.7, noise_floor=0.003, anisotropy=anisotropy)),
            found,
            error,
            all_seen(found),
            lean,
        )[0]
        for anisotropy in (0.0, 1.0)
    )
    errors = [np.linalg.norm(points - true, axis=2).mean() for points in (blind, covariance)]
    assert errors[1] < 0.5 * errors[0]
    best = chosen(whole(found), found, error, all_seen(found), lean, true, all_seen(found))
    assert best is not None
    assert best.settings.anisotropy > 0


def test_the_posterior_is_that_of_a_gaussian() -> None:
    """Compared with dense matrices and numerical derivatives; a landmark is face motion, a residual and anisotropic
    noise."""
    head = fit_head(smiling(60, 0), None)
    assert head is not None
    prior = FacePrior(head, PriorSettings(error_scale=1.0, noise_floor=0.05, outlying=1e6))
    rng = np.random.default_rng(3)
    rows = torch.tensor((smiling(1, 1) - 100.0) / 60 + rng.normal(0, 0.02, (1, 30, 2)))
    noise, lean = torch.tensor(rng.uniform(1e-3, 4e-3, (1, 30))), torch.tensor(rng.normal(0, 0.8, (1, 30, 2)))
    spread = _covariance_of(noise, lean)
    first = prior._gauss_newton_step(rows, spread.plus(prior.base).inverse(), prior._initial_face(rows, noise)).face
    drawn, left = prior._posterior(rows, noise, lean)
    n_numbers, shown = len(prior.prior_precision), prior._project(first)
    nudged = [prior._project(_apply_step(first, 1e-6 * torch.eye(n_numbers)[at : at + 1].double()))
              for at in range(n_numbers)]  # fmt: skip
    slopes = torch.stack([(other - shown)[0].T.flatten() / 1e-6 for other in nudged], 1).numpy()
    base = np.tile(prior.base.numpy(), 2)
    wobble = np.block([[np.diag(part[0].numpy()) for part in pair] for pair in (spread[:2], spread[1:])])
    before = np.zeros(n_numbers)
    before[: len(head.modes)] = -first.coefficients[0].numpy()  # the mean of the prior on motions, in this view
    signal = slopes @ np.diag(1 / prior.prior_precision.numpy()) @ slopes.T + np.diag(base)
    mean = shown[0].T.flatten().numpy() + slopes @ before
    gain = signal @ np.linalg.inv(signal + wobble)
    wanted = (mean + gain @ (rows[0].T.flatten().numpy() - mean)).reshape(2, 30).T
    after = np.diag(signal - gain @ signal).reshape(2, 30)
    np.testing.assert_allclose(left[0].numpy(), np.sqrt(after.mean(axis=0)), rtol=1e-3)
    np.testing.assert_allclose(drawn[0].numpy(), wanted, atol=2e-3)  # a rotation is not exactly linear


def test_turns_that_are_seen_too_small_are_stretched() -> None:
    """Detected landmarks are those of a head that is turned 2 % less."""
    head = fit_head(faces(60, 0), None)
    assert head is not None
    rng = np.random.default_rng(4)
    shown = []
    for share in (1.0, 0.98):
        views = []
        for yaw, pitch in np.random.default_rng(9).uniform(-0.8, 0.8, (40, 2)) * (1.0, 0.4):
            angle = share * np.hypot(yaw, pitch)
            axis = np.array([pitch, yaw, 0.0]) / np.hypot(yaw, pitch)
            cross = np.cross(np.eye(3), -axis)
            turn = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
            views.append(HEAD @ turn.T[:, :2] * 50 + 100)
        shown.append(np.array(views))
    true, found = shown[0], shown[1] + rng.normal(0, 0.2, shown[1].shape)
    seen, error = np.ones((40, 30)), np.full((40, 30), 1.0)
    parts = split_folds(faces(60, 0), found, None, joins=False)
    best = chosen(parts, found, error, seen, even(found), true, seen)
    assert best is not None
    assert best.settings.extrapolation == 0.01
    drawn = [
        apply_prior(
            FacePrior(parts[0].head, PriorSettings(error_scale=0.4, noise_floor=0.003, extrapolation=extrapolation)),
            found,
            error,
            seen,
            even(found),
        )[0]
        for extrapolation in (0.0, 0.02)
    ]
    off = [np.linalg.norm(points - true, axis=2).mean() for points in drawn]
    assert off[1] < 0.7 * off[0]


def test_landmarks_that_are_no_face_are_drawn_to_finite_places() -> None:
    head = fit_head(smiling(60, 0), None)
    assert head is not None
    prior = FacePrior(head, PriorSettings(error_scale=0.3, noise_floor=0.001, anisotropy=2.2))
    rng = np.random.default_rng(5)
    wild = np.concatenate(
        [rng.normal(0, 1e3, (20, 30, 2)), np.zeros((1, 30, 2)), rng.normal(0, 1, (3, 30, 1)) * np.ones((1, 1, 2))]
    )
    error, seen = np.exp(rng.normal(0, 3, (24, 30))), rng.uniform(0, 1, (24, 30))
    drawn, left = apply_prior(prior, wild, error, seen, rng.normal(0, 3, (24, 30, 2)))
    assert np.isfinite(drawn).all()
    assert np.isfinite(left).all()


class Plain(nn.Module):
    """Thirty landmarks as one product with a crop: fast to trace, while the real networks have tests of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.of_landmark = nn.Conv2d(3, 30 * 6, 16)

    def forward(self, crop_NCHW: Tensor) -> LandmarkOutput:
        """The landmarks as a network outputs them."""
        said = self.of_landmark(crop_NCHW).flatten(1).unflatten(1, (30, 6))
        return LandmarkOutput(8 + 6 * said[..., :2], said[..., 2], said[..., 3], said[..., 4:])


def test_the_model_with_its_mirrored_reading_and_prior_is_exported_for_any_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    head = fit_head(faces(12, 0), None)
    assert head is not None
    head = replace(head, modes=head.modes[:1])  # few modes make a short graph
    prior = FacePrior(head, PriorSettings(error_scale=0.5, noise_floor=0.003, anisotropy=1.5))
    model = CropModel(cast(LandmarkNet, Plain()), prior=prior, mirror=[1, 0, *range(2, 30)])
    crops = np.random.default_rng(0).random((5, 16, 16, 3), dtype=np.float32)
    names, limits = ("crop", ("landmarks", "expected_error")), {"landmarks": 0.01}
    assert export_checked(model, tmp_path / "landmarks.onnx", names, crops, limits=limits) < 0.01


def test_a_prior_without_anisotropy_has_no_part_of_it() -> None:
    """onnxruntime returns NaN for an anisotropy of zero, so the graph must not contain it."""
    head = fit_head(faces(12, 0), None)
    assert head is not None
    found = faces(3, 1)
    error, seen = np.ones((3, 30)), np.ones((3, 30))
    drawn, left = apply_prior(
        FacePrior(head, PriorSettings(error_scale=0.5, noise_floor=0.003)), found, error, seen, found * np.nan
    )
    assert np.isfinite(drawn).all()
    assert np.isfinite(left).all()


def test_unknown_landmarks_of_some_frames_do_no_harm() -> None:
    known = faces(60, 0)
    holes = known.copy()
    holes[::3, 10:14] = np.nan
    whole, patched = fit_head(known, MIRROR), fit_head(holes, MIRROR)
    assert whole is not None
    assert patched is not None
    true, error = faces(20, 5), np.full((20, 30), 1.0)
    found = true + np.random.default_rng(1).normal(0, 1.0, true.shape)
    drawn = [
        apply_prior(
            FacePrior(head, PriorSettings(error_scale=0.7, noise_floor=0.004)),
            found,
            error,
            all_seen(found),
            even(found),
        )[0]
        for head in (whole, patched)
    ]
    errors = [np.linalg.norm(points - true, axis=2).mean() for points in drawn]
    assert errors[1] == pytest.approx(errors[0], rel=0.2)


def test_a_prior_is_taken_only_where_it_helps() -> None:
    true = faces(40, 6)
    seen, error = np.ones((40, 30)), np.full((40, 30), 1.5)
    found = true + np.random.default_rng(7).normal(0, 1.2, true.shape)
    prior = chosen(whole(found), found, error, seen, even(found), true, seen)
    assert prior is not None
    drawn, _ = apply_prior(prior, found, error, seen, even(found))
    assert np.linalg.norm(drawn - true, axis=2).mean() < 0.75 * np.linalg.norm(found - true, axis=2).mean()
    other = whole(found, np.random.default_rng(8).normal(0, 40, (40, 30, 2)))  # frames with nothing in common
    assert chosen(other, true, error, seen, even(true), true, seen) is None
    assert chosen((), found, error, seen, even(found), true, seen) is None
    assert fit_head(faces(5, 0), MIRROR) is None
    assert split_folds(faces(5, 0), found, MIRROR, joins=False) == ()


def test_keyed_frames_that_are_too_few_alone_get_no_prior_from_held_out_ones() -> None:
    """The evaluated pack is made of the keyed frames alone, and would have no head for the prior."""
    for n_keyed in (10, 11, 12):
        has_head = fit_head(faces(n_keyed, 0), MIRROR) is not None
        assert bool(split_folds(faces(n_keyed, 0), faces(9, 6), MIRROR, joins=True)) == has_head == (n_keyed == 12)


def test_a_prior_whose_head_includes_the_held_out_poses_gets_more_weight() -> None:
    """Held-out views from sides that were never keyed: without them the head fits those views badly."""
    near = HEAD[:, :2] * 50 + np.random.default_rng(1).normal(0, 0.3, (40, 30, 2)) + 100.0  # keyed from one side only
    true = faces(40, 6)
    found = true + np.random.default_rng(7).normal(0, 1.5, true.shape)
    seen, error = np.ones((40, 30)), np.full((40, 30), 2.0)
    alone = chosen(split_folds(near, true, MIRROR, joins=False), found, error, seen, even(found), true, seen)
    joined = chosen(split_folds(near, true, MIRROR, joins=True), found, error, seen, even(found), true, seen)
    assert joined is not None
    if alone is not None:
        more, fewer = joined.settings, alone.settings
        assert more.error_scale > fewer.error_scale or more.noise_floor < fewer.noise_floor
    parts = split_folds(near, true, MIRROR, joins=True)
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(40))


@pytest.mark.parametrize(("lopsided", "is_mirrored"), [(0.0, True), (0.04, True), (0.15, False)])
def test_mirrored_faces_count_unless_a_head_is_very_lopsided(lopsided: float, is_mirrored: bool) -> None:
    """Keyed from one side, detected from both; the head's halves differ by this share of its half width."""
    half = HEAD[:15] + [2.0, 0, 0]
    head = np.concatenate([half, half * [-1, 1, 1]])
    head += np.random.default_rng(2).normal(0, lopsided, head.shape)
    mirror = [*range(15, 30), *range(15)]
    keyed = faces(60, 0, head, (0.1, 0.6))
    true = np.concatenate([faces(20, 6, head, (-0.6, -0.1)), faces(20, 7, head, (0.1, 0.6))])
    found = true + np.random.default_rng(7).normal(0, 1.5, true.shape)
    seen, error = np.ones((40, 30)), np.full((40, 30), 2.0)
    kinds = [split_folds(keyed, true, kind, joins=False) for kind in (mirror, None)]
    choice = choose_prior(kinds, found, error, seen, even(found), true, seen)
    assert choice is not None
    assert choice.prior.mirrored == choice.parts[0].head.mirrored == is_mirrored


@pytest.mark.parametrize(("share", "is_second"), [(0.95, False), (0.85, True)])
def test_another_kind_of_head_has_to_be_better_by_more_than_two_trainings_differ(
    monkeypatch: pytest.MonkeyPatch, share: float, is_second: bool
) -> None:
    true = faces(12, 6)
    kinds = [whole(true), whole(faces(12, 7))]
    errors = iter((1.0, share))
    monkeypatch.setattr(selection, "_coordinate_descent", lambda start, distance: (start, next(errors)))
    seen = np.ones((12, 30))
    choice = choose_prior(kinds, true + 5.0, seen, seen, even(true), true, seen)
    assert choice is not None
    assert choice.parts is kinds[is_second]


@pytest.mark.parametrize(("off_px", "wanted"), [(30.0, 20.0), (0.8, 3.0)])
def test_how_little_hidden_landmarks_count_is_chosen(off_px: float, wanted: float) -> None:
    true, rng = faces(40, 6), np.random.default_rng(7)
    found = true + rng.normal(0, 0.8, true.shape)
    found[:, :9] += rng.normal(0, off_px, (40, 1, 2))  # hidden ones shift together, by more than the others or as much
    seen, error = np.ones((40, 30)), np.ones((40, 30))
    seen[:, :9] = 0.1
    prior = chosen(whole(found), found, error, seen, even(found), true, seen)
    assert prior is not None
    assert prior.settings.occlusion_factor == wanted


@pytest.mark.parametrize("moves", [False, True])
def test_whether_what_contradicts_the_others_counts_is_chosen(moves: bool) -> None:
    """Landmarks far from the prior are detection errors, or the face moves as in no keyed frame."""
    true, rng = faces(40, 6), np.random.default_rng(8)
    found = true + rng.normal(0, 0.8, true.shape)
    slips = rng.normal(0, 6.0, (40, 2, 2))
    found[:, :2] += slips
    if moves:
        true[:, :2] += slips
    prior = chosen(whole(found), found, np.ones((40, 30)), all_seen(found), even(found), true, all_seen(found))
    assert prior is not None
    assert (prior.settings.outlying > 3.0) == moves


def test_a_landmark_known_only_by_its_mirror_partner_needs_mirrored_faces() -> None:
    keyed = faces(40, 0)
    keyed[:, 1] = np.nan
    twins = [1, 0, *range(2, 30)]
    assert fit_head(keyed, None) is None
    assert fit_head(keyed, twins) is not None
    assert split_folds(keyed, keyed[:6], None, joins=True) == ()
    keyed[3, 1] = 100.0
    assert fit_head(keyed, None) is not None
