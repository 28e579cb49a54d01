"""The visibility score orders synthetic seams as a viewer would."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import cleanplate, visibility

from . import synthetic_seams

LINE = synthetic_seams.curve()
CURVES = [(LINE, 5.0)]


def ranks(values: list[float]) -> np.ndarray:
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize("kind", ["groove", "ridge", "step"])
def test_more_contrast_ranks_higher(kind: str) -> None:
    depths = np.linspace(0.0, 0.8, 17)
    below = np.arange(96)[:, None] + 0.5 > np.interp(np.arange(160) + 0.5, LINE[:, 0], LINE[:, 1])

    def plate(depth: float) -> np.ndarray:
        if kind == "step":
            return synthetic_seams.face(seed=1) * np.where(below[..., None], 1.0 - 0.5 * depth, 1.0)
        return synthetic_seams.face(seed=1) * synthetic_seams.groove(LINE, depth=depth if kind == "groove" else -depth)

    scores = [visibility.score(plate(depth), CURVES) for depth in depths]
    agreement = np.corrcoef(ranks(scores), np.arange(len(depths)))[0, 1]
    assert agreement > 0.98
    assert scores[-1] > 5.0 * scores[0]


def test_a_face_without_seam_scores_about_one_and_exposure_drops_out() -> None:
    clean = synthetic_seams.face(seed=2)
    assert 0.5 < visibility.score(clean, CURVES) < 2.0
    plate = clean * synthetic_seams.groove(LINE, depth=0.5)
    assert visibility.score(plate * 8.0, CURVES) == pytest.approx(visibility.score(plate, CURVES), rel=1e-3)


def test_the_clean_plate_shows_less_seam_than_the_plate() -> None:
    clean = synthetic_seams.face(seed=4)
    plate = clean * synthetic_seams.groove(LINE, depth=0.7)
    out = cleanplate.fill(plate, synthetic_seams.matte(LINE, 5.0), CURVES)
    before, after = visibility.score(plate, CURVES), visibility.score(out, CURVES)
    assert after < 0.3 * before
    assert after < 2.0 * visibility.score(clean, CURVES)


def test_no_seam_on_the_picture_scores_one() -> None:
    plate = synthetic_seams.face()
    assert visibility.score(plate, []) == 1.0
    assert visibility.score(plate, [(LINE + 1000.0, 5.0)]) == 1.0
    assert np.isfinite(visibility.score(plate * np.nan, CURVES))


def test_contrast_is_what_the_seam_is_darker_than_beside_it() -> None:
    flat = np.full((96, 160, 3), 0.4, np.float32)
    seen = visibility.look(flat * synthetic_seams.groove(LINE, depth=0.5, gap=30.0), CURVES)
    assert len(seen.contrast) == 1
    assert len(seen.contrast[0]) == visibility.STATIONS
    narrow = visibility.look(np.where(synthetic_seams.matte(LINE, 5.0)[..., None] > 0, flat * 0.5, flat), CURVES)
    wanted = np.log(0.2 + 0.02 * 0.4) - np.log(0.4 + 0.02 * 0.4)
    assert narrow.contrast[0][8] == pytest.approx(wanted, abs=0.08)


def test_light_that_moves_over_the_face_is_no_flicker_and_a_boiling_fill_is() -> None:
    clean, matte = synthetic_seams.face(grain=0.0), synthetic_seams.matte(LINE, 5.0)[..., None]
    columns = np.arange(160)[None, :, None]
    moving = [clean * (1 + 0.3 * np.sin(columns / 50 + k)) for k in range(6)]
    boiling = [clean * (1 + 0.05 * (-1) ** k * matte) for k in range(6)]
    calm, boil = (visibility.flicker([visibility.look(f, CURVES).contrast for f in each]) for each in (moving, boiling))
    assert calm is not None
    assert boil == pytest.approx(np.log(1.05 / 0.95), rel=0.2)
    assert calm < 0.1 * boil
    assert visibility.flicker([visibility.look(clean, CURVES).contrast]) is None


def test_stations_off_the_picture_are_none_and_do_not_count() -> None:
    clean = synthetic_seams.face()
    beyond = visibility.look(clean, [(LINE + (60.0, 0.0), 5.0)]).contrast[0]
    assert beyond[-1] is None
    assert beyond[0] is not None


def test_rendered_seams_rank_as_their_known_contrast_does() -> None:
    """Rendered seams, from hairline to wide and from faint to black, on two characters under their own light."""
    pytest.importorskip("numba")
    from dataclasses import replace

    from rotopaint_ai.shapes import bezier
    from rotopaint_ai.stage.looks import draw_style
    from rotopaint_ai.stage.puppet import Pose, draw_build
    from rotopaint_ai.stage.scene import render_looks
    from rotopaint_ai.stage.studio import draw_studio
    from rotopaint_ai.stage.view import Camera

    for seed in (5, 12):
        base = draw_style(seed)
        looks = [
            replace(base, gap=gap, depth=depth, shadow=0.0, wander=0.0, tilt=(0.3, 0.3), step=0.0)
            for gap, depth in ((0.004, 0.3), (0.008, 0.3), (0.008, 0.6), (0.016, 0.6), (0.016, 0.95), (0.03, 0.95))
        ]
        camera = Camera(260, 260, 90, (130, 130), 9.0)
        known, found = [], []
        for picture in render_looks(draw_build(seed), Pose(), draw_studio(seed), camera, looks, texture=512):
            seams = [s for s in picture.shapes if s.role == "seam"]
            curves = [(bezier.flatten(s.points, False, 0.05), 0.5 * (s.width_px or 4.0)) for s in seams]
            apart = np.log((picture.plate + 0.01) / (picture.clean + 0.01)).mean(2)
            known.append(float((apart[picture.seam > 0.2] ** 2).sum()))
            found.append(visibility.score(picture.plate, curves))
        assert np.corrcoef(ranks(found), ranks(known))[0, 1] > 0.9, (seed, known, found)


@pytest.mark.parametrize(("score", "share"), [(0.2, 0.0), (0.5, 0.0), (0.65, 0.5), (0.8, 1.0), (4.0, 1.0)])
def test_paint_fades_where_the_seam_shows_less_than_what_is_beside_it(score: float, share: float) -> None:
    assert visibility.strength(score) == pytest.approx(share)


def test_each_seam_has_a_score_of_its_own() -> None:
    plate = synthetic_seams.face(seed=1) * synthetic_seams.groove(LINE, depth=0.6)
    far = LINE + (0.0, 30.0)
    seen = visibility.look(plate, [(LINE, 5.0), (far, 5.0)])
    assert seen.scores[0] > 3.0 * seen.scores[1]
    assert min(seen.scores) < seen.score < max(seen.scores)


def test_only_an_object_over_the_whole_seam_hides_it() -> None:
    """Black rods cross the banks on both sides, over a third of the seam's length; the seam itself is not occluded."""
    plate = synthetic_seams.face() * synthetic_seams.groove(LINE, depth=0.1)
    covered = synthetic_seams.face(seed=5)
    for x in range(60, 100):
        for sign in (-1, 1):
            y = int(np.interp(x, *LINE.T)) + sign * int(6 + 0.25 * (x - 60))
            plate[y - 1 : y + 2, x] *= 0.05
    rods = np.abs(np.mgrid[: synthetic_seams.SIZE[0], : synthetic_seams.SIZE[1]][1] % 12 - 6) < 2
    covered[rods] *= 0.1
    open_seam, under_rods = (visibility.look(light, CURVES) for light in (plate, covered))
    assert visibility.strength(open_seam.score) == 0.0  # the rods bend the light more
    assert visibility.strength(open_seam.scores[0]) == 1.0
    assert under_rods.scores[0] < 1.5


def test_two_points_are_a_seam_and_one_is_none() -> None:
    plate = synthetic_seams.face() * synthetic_seams.groove(LINE, depth=0.3)
    ends = np.array([(30.0, 40.0), (130.0, 60.0)])
    two, three, one = (
        visibility.look(plate, [(line, 5.0)]) for line in (ends, np.insert(ends, 1, (80.0, 50.0), axis=0), ends[:1])
    )
    assert two.contrast == three.contrast
    assert two.score == three.score
    assert one == visibility.Visibility(1.0, (1.0,), ((None,) * visibility.STATIONS,))


def test_a_stretch_that_is_held_out_does_not_count() -> None:
    """A bright hand with stripes over the right half of one of two seams; the other is measured whole."""
    plate = synthetic_seams.face(seed=1) * synthetic_seams.groove(LINE, depth=0.5)
    front = np.zeros(plate.shape[:2], np.float32)
    front[:, 80:] = 1.0
    stripes = 0.5 + 0.4 * np.sin(np.arange(plate.shape[0]) * 1.3)
    covered = np.where(front[..., None] > 0, stripes[:, None, None], plate).astype(np.float32)
    bare, hand = visibility.look(plate, CURVES), visibility.look(covered, CURVES)
    held = visibility.look(covered, [*CURVES, *CURVES], (front, None))
    assert abs(held.scores[0] / bare.scores[0] - 1) < 0.2
    assert abs(hand.scores[0] / bare.scores[0] - 1) > 0.3
    assert (held.scores[1], held.contrast[1]) == (hand.scores[0], hand.contrast[0])
    half = visibility.STATIONS // 2
    assert held.contrast[0][: half - 1] == hand.contrast[0][: half - 1]
    assert held.contrast[0][half + 1 :] == (None,) * (half - 1)
    assert visibility.look(covered, CURVES, (np.ones_like(front),)).scores == (1.0,)
