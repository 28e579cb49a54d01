"""Seams burnt into pictures: what is known of them is exact."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("numba")

from rotopaint_ai.stage import burnt_seams, shot_folder


def test_a_burnt_in_seam_changes_nothing_outside_its_coverage() -> None:
    rng = np.random.default_rng(3)
    clean = burnt_seams.paint_texture(160, rng)
    view = burnt_seams.burn_seam(clean, rng)
    apart = np.abs(view.plate - view.clean).max(2)
    assert not apart[view.seam == 0].any()
    assert apart[view.seam > 0].max() > 0.01
    assert np.array_equal(view.clean, clean)


def test_what_stands_before_a_face_hides_its_seam_in_plate_and_clean_alike() -> None:
    rng = np.random.default_rng(4)
    view = burnt_seams.add_groove(burnt_seams.paint_texture(160, rng), rng)
    hidden = burnt_seams.add_occluders(view, rng)
    same = (hidden.plate == hidden.clean).all(2) | (view.plate != view.clean).any(2)
    assert same.mean() > 0.5
    assert ((hidden.seam > 0) <= (view.seam > 0)).all()
    assert (hidden.seam > 0).sum() < (view.seam > 0).sum()


def test_a_branch_joins_the_first_seam() -> None:
    rng = np.random.default_rng(5)
    view = burnt_seams.burn_seam(burnt_seams.paint_texture(160, rng), rng)
    both = burnt_seams.add_branch(view, rng)
    assert len(both.curves) == 2
    assert (both.seam > 0).sum() > (view.seam > 0).sum()
    start = np.asarray(both.curves[1][0])[0]
    assert np.hypot(*(np.asarray(view.curves[0][0]) - start).T).min() < 2.0
    assert np.array_equal(both.clean, view.clean)


def test_spots_of_light_lie_in_the_seam_and_only_on_the_plate() -> None:
    rng = np.random.default_rng(6)
    view = burnt_seams.burn_seam(burnt_seams.paint_texture(160, rng), rng)
    lit = [burnt_seams.add_gleams(view, rng) for _ in range(5)]
    assert all(np.array_equal(each.clean, view.clean) for each in lit)
    apart = [(each.plate - view.plate).max(2) for each in lit]
    assert not any(each[view.seam == 0].any() for each in apart)
    assert max(each.max() for each in apart) > 0.1
    hidden = burnt_seams.add_gleams(shot_folder.SeamFrame(view.plate, view.clean, 0 * view.seam, view.curves), rng)
    assert np.array_equal(hidden.plate, view.plate)


def test_a_fold_beside_a_seam_is_the_same_on_plate_and_clean_frame() -> None:
    rng = np.random.default_rng(7)
    view = burnt_seams.burn_seam(burnt_seams.paint_texture(160, rng), rng)
    folded = [burnt_seams.add_rim(view, rng) for _ in range(5)]
    for each in folded:
        assert np.allclose(each.plate * view.clean, each.clean * view.plate, rtol=1e-3, atol=1e-6)
    assert max(abs(each.clean / np.maximum(view.clean, 1e-6) - 1).max() for each in folded) > 0.1


def test_beyond_an_outline_a_seam_is_hidden() -> None:
    rng = np.random.default_rng(8)
    view = burnt_seams.burn_seam(burnt_seams.paint_texture(160, rng), rng)
    crossed = [burnt_seams.add_contour(view, rng) for _ in range(5)]
    for each in crossed:
        assert 0 < (each.seam > 0).sum() < (view.seam > 0).sum()
        gone = cv2.erode(((each.seam == 0) & (view.seam > 0)).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
        assert np.allclose(each.plate[gone], each.clean[gone], rtol=0.05, atol=1e-3)
    assert max(abs(each.clean / np.maximum(view.clean, 1e-6) - 1).max() for each in crossed) > 0.1
    nowhere = shot_folder.SeamFrame(view.plate, view.clean, 0 * view.seam, view.curves)
    assert burnt_seams.add_contour(nowhere, rng) is nowhere


def test_shots_of_any_picture_format_are_read_as_light(tmp_path: Path) -> None:
    codes = np.full((8, 8, 3), 188, np.uint8)
    cv2.imwrite(str(tmp_path / "a.png"), codes)
    assert shot_folder.read_linear(tmp_path / "a.png")[0, 0, 0] == pytest.approx(
        ((188 / 255 + 0.055) / 1.055) ** 2.4, rel=1e-4
    )
