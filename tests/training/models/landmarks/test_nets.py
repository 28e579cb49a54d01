"""The network: where it looks, what it says, and that the losses pull it the right way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rotopaint_ai.training.models.backbone import BACKBONES
from rotopaint_ai.training.models.landmarks import config as losses
from rotopaint_ai.training.models.landmarks.net import CoarseToFineNet, CropModel, Reader, anisotropy_of, soft_argmax
from rotopaint_ai.training.trainer.optim import OPTIMISERS, rate_at

TINY = {"widths": (8, 8, 8, 8, 8), "depths": (1, 1, 1, 1), "neck": 8, "fine": 8, "window": 5}


def test_the_mean_place_of_a_peak_is_its_centre() -> None:
    logits = torch.full((1, 1, 8, 10), -30.0)
    logits[0, 0, 3, 6] = 30.0
    place, spread, log_p = soft_argmax(logits)
    torch.testing.assert_close(place[0, 0], torch.tensor([6.5, 3.5]))
    assert spread.item() < 0.02
    assert abs(log_p.exp().sum().item() - 1) < 1e-5


@pytest.mark.parametrize("backbone", list(BACKBONES))
@pytest.mark.parametrize("fine", [0, 8])
def test_every_backbone_gives_points_errors_and_visibilities(backbone: str, fine: int) -> None:
    net = CoarseToFineNet(3, backbone=backbone, **{**TINY, "fine": fine}).eval()
    points, error, visible = CropModel(net)(torch.rand(2, 64, 64, 3))
    assert points.shape == (2, 3, 2)
    assert error.shape == visible.shape == (2, 3)
    assert bool((error > 0).all() and (visible > 0).all() and (visible < 1).all())
    assert bool(((points >= 0) & (points <= 64)).all())


def test_a_deeper_network_starts_where_a_shallower_one_ended() -> None:
    shallow, deep = CoarseToFineNet(3, **TINY).eval(), CoarseToFineNet(3, **{**TINY, "depths": (1, 1, 2, 3)}).eval()
    for norm in (m for m in shallow.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    assert not deep.load_state_dict(shallow.state_dict(), strict=False).unexpected_keys
    crop = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(deep(crop).points, shallow(crop).points)


def test_a_crop_and_its_mirror_image_are_read_alike() -> None:
    order = (1, 0, 2)
    read = Reader(CoarseToFineNet(3, **TINY).eval(), order)
    read.agree = 2.0  # an untrained network's two readings are of one thing all the same
    torch.nn.init.normal_(read.net.lean.weight)
    crop = torch.rand(2, 3, 64, 64)
    one, other = read(crop), read(torch.flip(crop, (3,)))
    torch.testing.assert_close(
        other.points[:, list(order)] * torch.tensor([-1.0, 1.0]), one.points - torch.tensor([64.0, 0.0])
    )
    torch.testing.assert_close(other.log_scale[:, list(order)], one.log_scale)
    torch.testing.assert_close(other.anisotropy[:, list(order)] * torch.tensor([1.0, -1.0]), one.anisotropy)


def test_a_mirrored_reading_of_something_else_does_not_count() -> None:
    read = Reader(CoarseToFineNet(3, **TINY).eval(), (1, 0, 2))
    read.agree = 0.0
    crop = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(read(crop).points, read.net(crop).points)


def test_fine_windows_read_the_cells_that_they_stand_on() -> None:
    net = CoarseToFineNet(2, **TINY)
    rows, corner = net._window_rows(torch.tensor([[[21.0, 13.0], [0.0, 63.9]]]), 32, 32)
    assert corner[0].tolist() == [[16.0, 8.0], [0.0, 54.0]]  # stride 2, 5 cells around cell (10, 6), and pushed inside
    assert rows[0, 0, 0].item() == 4 * 32 + 8
    assert rows[0, 0, -1].item() == 8 * 32 + 12
    assert rows.max().item() < 32 * 32


def test_calibration_scales_the_expected_error() -> None:
    net = CoarseToFineNet(3, **TINY).eval()
    crop = torch.rand(1, 64, 64, 3)
    plain, doubled = CropModel(net)(crop)[1], CropModel(net, (float(np.log(2)), 1.0))(crop)[1]
    torch.testing.assert_close(doubled, plain * 2)


def test_unknown_and_outside_landmarks_weigh_nothing() -> None:
    points = torch.tensor([[[float("nan"), 1.0], [70.0, 5.0], [5.0, 5.0], [6.0, 6.0]]])
    target = losses.make_target(
        points, torch.tensor([[1.0, 1.0, 1.0, 0.0]]), torch.tensor([1.0, 1.0, 2.0, 1.0]), 64, 0.25
    )
    assert target.weight.tolist() == [[0.0, 0.0, 2.0, 0.25]]
    assert bool(torch.isfinite(target.points).all())


@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_an_optimiser_learns_one_picture_with_every_loss(name: str) -> None:
    torch.manual_seed(0)
    net = CoarseToFineNet(2, **TINY)
    optimiser = OPTIMISERS[name](net, 2e-3 if name == "adamw" else 2e-2, 0.0)
    picture, points = (
        torch.rand(2, 3, 64, 64),
        torch.tensor([[[20.0, 30.0], [45.5, 11.0]], [[22.0, 33.0], [40.0, 18.0]]]),
    )
    target = losses.make_target(points, torch.ones(2, 2), torch.ones(2), 64, 0.3)
    parts = dict.fromkeys(losses.LOSSES, 1.0)
    values = []
    for _ in range(60):
        loss, said = losses.total_loss(net(picture), target, parts)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    assert set(said) == set(losses.LOSSES)
    assert values[-1] < 0.5 * values[0]


def test_the_expected_error_carries_no_gradient_to_the_points() -> None:
    net = CoarseToFineNet(2, **TINY)
    said = net(torch.rand(1, 3, 64, 64))
    target = losses.make_target(torch.full((1, 2, 2), 30.0), torch.ones(1, 2), torch.ones(2), 64, 0.3)
    losses.LOSSES["expected_error"](said, target).sum().backward()
    assert net.fine_of_landmark.grad is None or net.fine_of_landmark.grad.abs().max() == 0
    assert net.verdict.weight.grad is not None


def test_an_anisotropy_is_the_logarithm_of_a_spread_s_shape() -> None:
    angle, long, short = 0.6, 3.0, 1.5
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    covariance = turn @ np.diag([long**2, short**2]) @ turn.T
    away = np.stack(np.meshgrid(np.arange(64) - 31.5, np.arange(64) - 31.5), axis=-1)  # x, y
    log_p = -0.5 * np.einsum("hwi,ij,hwj->hw", away, np.linalg.inv(covariance), away)
    log_p -= np.log(np.exp(log_p).sum())
    found = anisotropy_of(torch.tensor(log_p)[None, None])[0, 0].numpy()
    values, vectors = np.linalg.eigh(covariance / np.sqrt(np.linalg.det(covariance)))
    logarithm = vectors @ np.diag(np.log(values)) @ vectors.T
    np.testing.assert_allclose(found, logarithm[0], atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(found), np.log(long / short), atol=1e-3)


def test_the_anisotropy_that_costs_least_is_that_of_the_errors() -> None:
    off = torch.randn(1, 4000, 2, generator=torch.Generator().manual_seed(3)) * torch.tensor([2.0, 0.5])
    net = CoarseToFineNet(2, **TINY)
    said = net(torch.rand(1, 3, 64, 64))._replace(points=off, log_scale=torch.zeros(1, 4000))
    target = losses.LandmarkTarget(torch.zeros(1, 4000, 2), torch.ones(1, 4000), torch.ones(1, 4000))

    def cost(a: float, b: float) -> float:
        lean = torch.tensor([a, b]).expand(1, 4000, 2)
        return float(losses.LOSSES["anisotropy"](said._replace(anisotropy=lean), target).mean())

    right = cost(np.log(4.0), 0.0)
    assert right == min(right, cost(0.0, 0.0), cost(-np.log(4.0), 0.0), cost(0.0, np.log(4.0)), cost(3.0, 0.0))


def test_the_schedule_warms_up_and_cools_down() -> None:
    rates = [rate_at(p, warmup=0.1) for p in (0.0, 0.05, 0.1, 0.55, 1.0)]
    np.testing.assert_allclose(rates, [0.01, 0.5, 1.0, 0.505, 0.01], atol=1e-9)
