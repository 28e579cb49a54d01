"""Many looks of a seam on the same face: only the seam differs, and it shows as its look says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from rotopaint_ai.exchange import document
from rotopaint_ai.plates import oiio
from rotopaint_ai.stage import puppet_shot
from rotopaint_ai.stage.looks import SeamStyle, draw_style
from rotopaint_ai.stage.puppet import Pose, draw_build
from rotopaint_ai.stage.puppet_shot import write_looks
from rotopaint_ai.stage.scene import StageFrame, render_looks
from rotopaint_ai.stage.studio import draw_studio
from rotopaint_ai.stage.view import Camera

CAMERA = Camera(140, 140, 46, (70, 70), 9.0)
PLAIN = replace(
    draw_style(1),
    gap=0.03, bevel=(0.02, 0.02), tilt=(0.0, 0.0), shade=(0.0, 0.0), halo=(0.0, 0.0), shadow=0.0, step=0.0, wander=0.0,
    gloss=0.0, depth=0.9,
)  # fmt: skip


def pictures(*looks: SeamStyle, folds: int = 0, hidden: bool = False) -> list[StageFrame]:
    studio = replace(draw_studio(3), glow=0.0, focus_blur=0.0, grain=0.0)
    return list(render_looks(draw_build(3), Pose(), studio, CAMERA, looks, folds=folds, hidden=hidden, texture=384))


def test_looks_share_the_clean_frame_and_differ_at_the_seam_only() -> None:
    one, other = pictures(PLAIN, replace(PLAIN, depth=0.2))
    np.testing.assert_array_equal(one.clean, other.clean)
    changed = np.abs(one.plate - one.clean).max(2) > 1e-4
    assert not changed[one.seam == 0].any()
    assert changed[one.seam > 0.9].mean() > 0.5


def test_a_deeper_gap_is_darker_and_a_wider_one_covers_more() -> None:
    shallow, deep, wide = pictures(replace(PLAIN, depth=0.3), PLAIN, replace(PLAIN, gap=0.06))
    core = deep.seam > 0.9
    assert deep.plate[core].mean() < shallow.plate[core].mean() < deep.clean[core].mean()
    assert wide.seam.sum() > 1.25 * deep.seam.sum()


def test_a_step_of_shade_stands_on_the_lower_piece_alone() -> None:
    flat, stepped = pictures(replace(PLAIN, depth=0.0), replace(PLAIN, depth=0.0, step=-0.3))
    darker = stepped.plate.mean(2) < flat.plate.mean(2) - 1e-4
    rows = np.nonzero(darker)[0]
    above = np.nonzero((flat.seam > 0.5) & ~darker)[0]
    assert np.median(rows) > np.median(above)


def test_folds_change_the_face_and_not_where_the_seam_runs() -> None:
    (plain,), (folded,) = pictures(PLAIN), pictures(PLAIN, folds=5)
    assert np.abs(plain.clean - folded.clean).max() > 0.02
    np.testing.assert_array_equal(plain.seam, folded.seam)


def test_what_stands_before_a_face_hides_its_seam() -> None:
    (plain,), (hidden,) = pictures(PLAIN), pictures(PLAIN, hidden=True)
    before = np.abs(plain.clean - hidden.clean).max(2) > 0.05
    assert before.sum() > 50
    assert (hidden.seam <= plain.seam + 1e-6).all()
    assert hidden.seam.sum() < plain.seam.sum()


def test_a_pose_made_hard_is_glossy_under_a_strong_rim_and_the_same_character() -> None:
    seen: list[tuple[float, float]] = []
    for seed in range(4):
        build, studio = draw_build(seed), draw_studio(seed)
        hard = puppet_shot._harden_character(build, studio, np.random.default_rng(seed))
        seen.append((hard[0].specular, float(hard[1].rim.colour.sum() / max(studio.rim.colour.sum(), 1e-9))))
        assert replace(hard[0], specular=build.specular, roughness=build.roughness, freckles=build.freckles) == build
    assert all(0.1 <= specular <= 0.5 and 1.0 <= rim <= 3.0 for specular, rim in seen)


def test_drawn_looks_vary_and_stay_within_bounds() -> None:
    drawn = [draw_style(seed) for seed in range(200)]
    assert draw_style(5) == drawn[5]
    gaps = np.array([look.gap for look in drawn])
    assert gaps.min() < 0.006
    assert gaps.max() > 0.035
    assert all(0 < look.depth < 1 and look.reach >= look.gap / 2 for look in drawn)


def read(path: Path) -> np.ndarray:
    with oiio.opened_image(path) as source:
        return oiio.read_pixels(source, path, first=0, end=3, dtype=np.float32)


def test_a_character_is_written_once_for_each_look(tmp_path: Path) -> None:
    write_looks(tmp_path, 31, poses=1, looks=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000031_0", "000031_1"]
    first, second = (tmp_path / f"000031_{k}" for k in (0, 1))
    assert np.array_equal(read(first / "clean.1001.exr"), read(second / "clean.1001.exr"))
    assert not np.array_equal(read(first / "plate.1001.exr"), read(second / "plate.1001.exr"))
    widths = [document.read(each / "truth.roto.json").shapes for each in (first, second)]
    assert all(any(s.role == "seam" and (s.width_px or 0) > 1 for s in shapes) for shapes in widths)
