"""The figures of `rotopaint bench clean` on pictures whose answers are known."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

from rotopaint_ai.bench import clean, clean_left, clean_page, clean_peers, clean_score
from rotopaint_ai.bench.clean_cases import Case, Sight, burn_case, codes
from rotopaint_ai.plates.colour import linearise

SIZE = 96


def _sight(plate: np.ndarray, true: np.ndarray, *, frame: int = 1) -> Sight:
    hole = np.zeros((SIZE, SIZE), np.uint8)
    hole[44:52, 8:88] = 1
    line = np.stack([np.linspace(8, 88, 40), np.full(40, 48.0)], 1)
    return Sight(frame, plate, true, hole, ((line, 4.0),))


def _grey(code: float) -> np.ndarray:
    return linearise(np.full((SIZE, SIZE, 3), code, np.uint8), "sRGB")


def test_psnr_is_that_of_8_bit_codes_inside_the_region_alone() -> None:
    true, plate = _grey(100), _grey(100)
    plate[48, 48] = 5.0  # inside: one pixel of 640 off by 155 codes after clipping
    case = Case("c", (_sight(plate, true),), is_8_bit=True, is_sequence=False)
    wanted = 10 * np.log10(255**2 / (155**2 / 640))
    assert clean_score.score_case(case, [plate]).psnr_db == pytest.approx(wanted, abs=1e-3)


def test_float_plates_count_light_above_one() -> None:
    true = np.full((SIZE, SIZE, 3), 3.0, np.float32)
    case = Case("c", (_sight(true, true),), is_8_bit=False, is_sequence=False)
    clamped = clean_score.score_case(case, [np.where(case.sights[0].hole[..., None] > 0, np.float32(1.0), true)])
    wanted = 1.055 * 3.0 ** (1 / 2.4) - 0.055 - 1.0
    assert clamped.psnr_db == pytest.approx(-20 * np.log10(wanted), abs=1e-3)
    assert clean_score.score_case(case, [true]).psnr_db > 100


def test_perfect_fill_scores_perfectly_and_flat_fill_loses_its_grain() -> None:
    rng = np.random.default_rng(0)
    frames = [(0.2 * (1 + 0.1 * rng.standard_normal((SIZE, SIZE, 3)))).astype(np.float32) for _ in range(3)]
    sights = tuple(_sight(light, light, frame=k) for k, light in enumerate(frames))
    case = Case("c", sights, is_8_bit=False)
    same = clean_score.score_case(case, frames)
    assert (same.ssim, same.gradient_error, same.grain_error_db) == (pytest.approx(1.0), 0.0, 0.0)
    assert same.flicker_over_clean == pytest.approx(1.0)
    flat = [np.where(s.hole[..., None] > 0, np.float32(0.2), f) for s, f in zip(sights, frames)]
    lost = clean_score.score_case(case, flat)
    assert lost.grain_error_db > 20
    assert lost.flicker_over_clean == pytest.approx(0.0, abs=1e-6)
    assert lost.ssim < 0.95


def test_what_is_left_is_the_share_of_the_seam_in_each_piece_of_it() -> None:
    true, plate = _grey(100), _grey(100)
    plate[44:52, 8:88] = _grey(60)[44:52, 8:88]
    sight = _sight(plate, true)
    shown = [clean_score.display_values(light, True) for light in (plate, true)]
    pieces = list(clean_left.seam_windows(sight, shown[0], shown[0], shown[1]))
    assert len(pieces) == 3  # 80 px in pieces of about 24
    assert [piece.left for piece in pieces] == pytest.approx([1.0] * 3)
    half = np.where(np.arange(SIZE)[None, :, None] < 36, 0.75 * shown[1] + 0.25 * shown[0], shown[1])
    first, *others = clean_left.seam_windows(sight, half, shown[0], shown[1])
    assert (first.x, first.y) == pytest.approx((8 + 80 / 6, 48), abs=1.0)
    assert first.left == pytest.approx(0.25)
    assert max(piece.left for piece in others) < 0.05
    over = 2.0 * shown[1] - shown[0]  # as much too bright as the seam was dark
    assert max(piece.left for piece in clean_left.seam_windows(sight, over, shown[0], shown[1])) == pytest.approx(-1.0)
    faint = shown[1] - (shown[1] - shown[0]) * (7.0 / 40.0)
    assert list(clean_left.seam_windows(sight, faint, faint, shown[1])) == []


def test_a_score_names_the_worst_window_and_the_shares_above() -> None:
    true, plate = _grey(100), _grey(100)
    plate[44:52, 8:88] = _grey(60)[44:52, 8:88]
    made = np.where(np.arange(SIZE)[None, :, None] < 30, plate, true)
    score = clean_score.score_case(Case("c", (_sight(plate, true),), is_8_bit=True, is_sequence=False), [made])
    assert score.left_over_quarter == score.left_over_half == pytest.approx(1 / 3)
    assert score.left_worst is not None
    assert score.left_worst > 0.8


def test_changes_outside_the_matte_are_counted_value_by_value() -> None:
    true = _grey(100)
    touched = true.copy()
    touched[0, 0] += 0.1
    case = Case("c", (_sight(true, true),), is_8_bit=True, is_sequence=False)
    assert clean_score.score_case(case, [touched]).changed_outside == 3


def test_a_burnt_in_seam_lies_under_its_region_alone(tmp_path: Path) -> None:
    rows, columns = np.mgrid[:120, :160]
    picture = np.stack([120 + 40 * np.sin(columns / 20), 90 + rows / 3, 80 + columns / 4], 2).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "still.png"), picture)
    case = burn_case(str(tmp_path / "still.png"), n_frames=1, seed=2, grain=0.0, is_float=False)
    sight = case.sights[0]
    apart = np.abs(codes(sight.plate).astype(int) - codes(sight.clean)).max(2)
    assert apart[sight.hole > 0].max() > 20
    assert not apart[sight.hole == 0].any()
    bright = burn_case(str(tmp_path / "still.png"), n_frames=1, seed=2, grain=0.02, is_float=True).sights[0]
    assert bright.clean.max() > 1.5


def test_a_picture_with_numbered_neighbours_is_one_picture(tmp_path: Path) -> None:
    for k in (1, 2, 3):
        cv2.imwrite(str(tmp_path / f"face{k}.png"), np.full((80, 90, 3), 60 + 20 * k, np.uint8))
    one = burn_case(str(tmp_path / "face2.png"), n_frames=8, seed=2, grain=0.0, is_float=False)
    assert (len(one.sights), one.is_sequence) == (1, False)
    assert codes(one.sights[0].clean).max() == 100
    every = burn_case(str(tmp_path / "face#.png"), n_frames=8, seed=2, grain=0.0, is_float=False)
    assert (len(every.sights), every.is_sequence) == (3, True)


def test_peers_change_nothing_outside_and_the_absent_are_named() -> None:
    rng = np.random.default_rng(1)
    true = linearise(rng.integers(90, 110, (SIZE, SIZE, 3)).astype(np.uint8), "sRGB")
    dark = np.where(_sight(true, true).hole[..., None] > 0, np.float32(0.0), true)
    sights = [_sight(dark, true), replace(_sight(dark, true), frame=2)]
    asked = clean_peers.ask(sights, python=None)
    slow = {"fsr-best", "shiftmap", "gmic inpaint_matchpatch", "gmic inpaint_morpho"}
    assert slow <= {each.name for each in asked}  # asked, or said to be absent: the strongest are not left out
    assert not slow & {each.name for each in clean_peers.ask(sights, python=None, quick=True)}
    done = {each.name: each for each in asked if each.refused is None}
    assert {"telea", "navier-stokes", "oiio fillholes", "flow-borrowed neighbours"} <= set(done)
    for each in done.values():
        outside = each.lights[0][sights[0].hole == 0]
        assert np.array_equal(outside, dark[sights[0].hole == 0])
        assert each.lights[0][48, 48].mean() > 0.05
    assert all(each.refused for each in asked if each.name not in done)


def test_gmic_is_retried_with_a_wider_rim_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    true = _grey(100)
    sight = _sight(np.where(_sight(true, true).hole[..., None] > 0, np.float32(0.0), true), true)
    sizes: list[tuple[int, ...]] = []

    def once(words: tuple[str, str, str], plate: np.ndarray, hole: np.ndarray) -> np.ndarray:
        sizes.append(plate.shape[:2])
        return np.full_like(plate, 100 if len(sizes) > 2 else 0)

    monkeypatch.setattr(clean_peers, "_gmic_once", once)
    filled = clean_peers._gmic(("gmic", "inpaint", ""), codes(sight.plate), sight.hole)
    assert sizes == [(SIZE, SIZE), (SIZE + 1, SIZE + 1), (SIZE + 2, SIZE + 2)]
    assert filled.shape == (SIZE, SIZE, 3)
    assert (filled == 100).all()


def test_the_kind_measures_a_still_and_writes_its_page(tmp_path: Path) -> None:
    shot = tmp_path / "A" / "shot"
    _write_shot(shot)
    parser = argparse.ArgumentParser()
    clean.add_arguments(parser)
    page = tmp_path / "page.html"
    words = ["--shots", str(shot), "--no-predict", "--methods", "two-bank", "--repeats", "1", "--page", str(page)]
    result = clean.measure(parser.parse_args([*words, "--peers", sys.executable]))
    methods = result["cases"][0]["methods"]
    assert methods["two-bank"]["psnr_db"] > methods["untouched"]["psnr_db"] + 5
    assert methods["two-bank"]["changed_outside"] == 0
    assert methods["two-bank"]["chosen"] == {"two-bank": 1.0}
    assert [row["size"] for row in result["speed"]] == ["960x540", "1920x1080", "3840x2160"]
    text = page.read_text(encoding="utf-8")
    assert "two-bank" in text
    assert text.count("data:image/png;base64,") == 4 + 3  # four of the busiest stretch, three of what is left


def test_the_page_escapes_names_marks_the_best_and_dashes_gaps() -> None:
    scores = {
        "untouched": {"psnr_db": 40.0},
        "a<b": {"psnr_db": 30.0, "chosen": {"two-bank": 0.25}},
        "c": {"psnr_db": 20.0},
    }
    case = {"case": "shot & <take>", "frames": 2, "verdict": "a<b leads", "methods": scores}
    page = clean_page.render_comparison({"cases": [case], "speed": [], "refused": {"x": "no <module>"}}, [])
    assert "<h2>shot &amp; &lt;take&gt;</h2><p>2 frames; a&lt;b leads</p>" in page
    assert "<li>x: no &lt;module&gt;</li>" in page
    (row,) = [line for line in page.splitlines() if 'class="best"' in line]
    assert row == f'<tr class="best"><td>a&lt;b</td><td>30.00</td>{10 * "<td>-</td>"}<td>two-bank 25%</td></tr>'


def _write_shot(folder: Path) -> None:
    from rotopaint_ai.exchange import document
    from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

    folder.mkdir(parents=True)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    face = np.stack([130 + 30 * np.sin(columns / 25), 100 + rows / 4, 90 + columns / 5], 2)
    groove = 1 - 0.7 * np.exp(-0.5 * ((rows + 0.5 - 48) / 1.3) ** 2) * ((columns > 10) & (columns < 86))
    cv2.imwrite(str(folder / "clean.1001.png"), face.astype(np.uint8))
    cv2.imwrite(str(folder / "plate.1001.png"), (face * groove[..., None]).astype(np.uint8))
    cv2.imwrite(str(folder / "seam.1001.png"), np.uint8(255) * (groove < 0.98).astype(np.uint8))
    points = tuple(ControlPoint(x, 48.0, -8.0, 0.0, 8.0, 0.0) for x in (10.0, 48.0, 86.0))
    seam = RotoShape("seam", False, "seam", {1001: Key(points)}, width_px=6.0)
    document.write(folder / "truth.roto.json", RotoDocument(SIZE, SIZE, 1001, 1001, shapes=(seam,)))
