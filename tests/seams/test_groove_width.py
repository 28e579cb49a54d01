"""Measured widths of seams with a known width."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import groove_width

from . import synthetic_seams

LINE = synthetic_seams.curve()
FACE_PX = 240.0


def plate(gap: float) -> np.ndarray:
    return synthetic_seams.face(seed=1) * synthetic_seams.groove(LINE, depth=0.6, gap=gap)


def test_wider_grooves_are_wider_and_none_is_taken_for_its_surroundings() -> None:
    found = [groove_width.shape_width(plate(gap), LINE, FACE_PX) for gap in (0.7, 1.4, 2.8)]
    assert all(each is not None for each in found)
    assert found == sorted(found)
    assert 2.0 < found[0] < 8.0  # a Gaussian of 0.7 px is gone to a hundredth at 2.1 px on either side
    assert found[2] < 20.0


def test_no_seam_has_no_width_and_exposure_drops_out() -> None:
    smooth = np.full((96, 160, 3), 0.4, np.float32) * (1 + np.arange(160) / 300.0)[None, :, None].astype(np.float32)
    assert groove_width.shape_width(smooth, LINE, FACE_PX) is None
    assert groove_width.shape_width(plate(1.2) * 16.0, LINE, FACE_PX) == pytest.approx(
        groove_width.shape_width(plate(1.2), LINE, FACE_PX), rel=1e-3
    )


def test_only_a_visible_seam_has_widths() -> None:
    thin, wide = (groove_width.visible_widths(groove_width.root_light(plate(gap)), LINE, FACE_PX) for gap in (0.7, 2.8))
    assert thin is not None
    assert wide is not None
    assert np.median(wide) > 1.5 * np.median(thin)
    bare = groove_width.root_light(synthetic_seams.face(seed=1))
    assert groove_width.visible_widths(bare, LINE, FACE_PX) is None
    # outside the picture
    assert groove_width.visible_widths(groove_width.root_light(plate(0.7)), LINE + (150.0, 0.0), FACE_PX) is None


def test_the_sides_change_places_where_the_curve_runs_the_other_way() -> None:
    beside = LINE + (0.0, 2.0)  # the groove lies above the curve, on the left of its direction
    there = groove_width.measure_width(groove_width.root_light(plate(1.2)), beside, FACE_PX)
    back = groove_width.measure_width(groove_width.root_light(plate(1.2)), beside[::-1], FACE_PX)
    assert there is not None
    assert back is not None
    assert np.median(there.usual[0]) > np.median(there.usual[1])
    assert there.usual[0] == pytest.approx(back.usual[1][::-1], abs=0.3)


def test_a_table_is_three_layers_of_which_two_are_cut_off_at_nought() -> None:
    """(a, b) -> max(a, 0), max(b, 0) -> max(a - b, 0), max(b - 1, 0) -> both doubled, from 0 to REACH."""
    weights = np.eye(2), np.array([[1.0, 0], [-1, 1]]), 2 * np.eye(2)
    table = groove_width.WidthTable(weights, (np.zeros(2), np.array([0.0, -1]), np.zeros(2)))
    answers = table(np.array([[-1.0, 1.25], [0.75, 0.5], [9e9, 9e9 - 0.25], [-2, -2]]))
    assert answers.tolist() == [[0, 0.5], [0.5, 0], [0.5, groove_width.REACH], [0, 0]]


def test_positions_outside_the_picture_are_ignored() -> None:
    found = groove_width.measure_width(groove_width.root_light(plate(1.2)), LINE + (70.0, 0.0), FACE_PX)
    assert found is not None
    assert not found.inside[-20:].any()
    assert found.inside[:40].all()
    assert groove_width.measure_width(groove_width.root_light(plate(1.2)), LINE[:3], FACE_PX) is None


def test_a_larger_picture_of_the_same_seam_is_wider_alike() -> None:
    small = groove_width.root_light(plate(1.4))
    large = np.kron(small, np.ones((3, 3), np.float32))
    one, three = (
        groove_width.measure_width(small, LINE, FACE_PX),
        groove_width.measure_width(large, 3 * LINE, 3 * FACE_PX),
    )
    assert one is not None
    assert three is not None
    assert three.full_px == pytest.approx(3 * one.full_px, rel=0.3)


@pytest.mark.parametrize("step", [1.0, 0.5, 2.0])
def test_a_strip_reads_the_picture_at_every_step_off_the_curve(step: float) -> None:
    """A slope y - 0.5 in pixel y: rows are steps to the right of a curve that runs to the right, that is down."""
    grey = np.repeat(np.arange(96, dtype=np.float32)[:, None], 160, 1)
    found, inside = groove_width.strip(grey, np.array([[40.0, 50.25], [120.0, 50.25]]), step)  # type: ignore[misc]
    offsets = np.arange(-groove_width.ROWS, groove_width.ROWS + 1) * step
    assert inside.all()
    assert found.shape == (2 * groove_width.ROWS + 1, round(80 / step) + 1)
    np.testing.assert_allclose(found, np.tile(50.25 - 0.5 + offsets, (found.shape[1], 1)).T, atol=0.02)


def test_places_are_on_the_picture_up_to_the_middle_of_its_last_pixels() -> None:
    """Rows reach 17 px on either side, and samples lie on pixel centres, so 17.5 px is the least distance from an
    edge."""
    grey = np.ones((60, 70), np.float32)

    def is_inside(x: float, y: float, *, down: bool) -> bool:
        line = np.array([(x, y - 10), (x, y + 10)] if down else [(x - 10, y), (x + 10, y)])
        return bool(groove_width.strip(grey, line, 1.0)[1].all())  # type: ignore[index]

    assert is_inside(35, 17.5, down=False)
    assert not is_inside(35, 17.4, down=False)
    assert is_inside(35, 42.5, down=False)
    assert not is_inside(35, 42.6, down=False)
    assert is_inside(17.5, 30, down=True)
    assert not is_inside(17.4, 30, down=True)
    assert is_inside(52.5, 30, down=True)
    assert not is_inside(52.6, 30, down=True)


def test_features_are_normalised_slopes_mirrored_for_the_other_side() -> None:
    """Log light, floor included, that rises by 0.1 a row: exp(0.1 r) = light + 0.02 mean, so that mean is E / 1.02."""
    risen = np.exp(0.1 * np.arange(2 * groove_width.ROWS + 1))
    light = np.repeat((risen - 0.02 * risen.mean() / 1.02)[:, None], 40, 1)
    below, above = groove_width.features(np.sqrt(light), np.ones(40, bool))
    n = 2 * groove_width.ROWS
    inner = np.arange(4, n - 4)
    assert below.shape == above.shape == (40, groove_width.N_FEATURES)
    np.testing.assert_allclose(below[:, inner], 1.0, atol=0.03)
    np.testing.assert_allclose(above[:, inner], -1.0, atol=0.03)
    for part in (n, 2 * n):
        np.testing.assert_allclose(below[:, part + inner], np.log(1.05), atol=0.03)
        np.testing.assert_allclose(above[:, part + inner], np.log(1.05), atol=0.03)
