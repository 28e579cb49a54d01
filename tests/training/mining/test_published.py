"""The published puppet data set: three point layouts, renders without background, and test frames that stay test
frames."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.puppet_folder import CG, SHOT, TEST
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.mined_samples import draw_background
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.mining.sources import read_source

# Where the points of the data set's frame 0 of shot 0 lie, to the pixel: the eyes and the brows of the picture's left
# and right half in the order of the shots, two of the sideburns (where the outer seams end), the middles of the seams.
FACE = {
    **{
        f"left_eye_{k}": p
        for k, p in enumerate([(245, 426), (271, 394), (317, 395), (347, 427), (317, 464), (267, 467)])
    },
    **{
        f"right_eye_{k}": p
        for k, p in enumerate([(412, 424), (440, 386), (491, 382), (527, 411), (500, 452), (448, 455)])
    },
    **{
        f"left_eyebrow_{k}": p
        for k, p in enumerate(
            [(220, 388), (244, 364), (280, 358), (317, 353), (349, 362), (327, 384), (290, 386), (253, 389)]
        )
    },
    **{
        f"right_eyebrow_{k}": p
        for k, p in enumerate(
            [(386, 358), (424, 347), (469, 349), (513, 351), (548, 370), (509, 377), (465, 376), (420, 377)]
        )
    },
    "left_sideburn_3": (224, 420),
    "right_sideburn_0": (594, 378),
    "left_seam_middle": (234, 425),
    "nose_seam_middle": (380, 427),
    "right_seam_middle": (563, 401),
}


def shown(names: tuple[str | None, ...], move: tuple[float, float]) -> list[list[float]]:
    dx, dy = move
    return [[FACE[n][0] + dx, FACE[n][1] + dy] if n in FACE else [0.0, 0.0] for n in names]


def ring(prefix: str, move: tuple[float, float]) -> list[list[list[float]]]:
    """A closed sequence of straight cubics through a shape's points."""
    points = [np.add(place, move) for name, place in FACE.items() if name.startswith(prefix)]
    runs = []
    for a, b in zip(points, [*points[1:], points[0]]):
        third = (b - a) / 3
        runs.append([[float(v) for v in row] for row in np.stack((a, third, b, -third), axis=1)])
    return runs


def write_frame(folder: Path, shot: str, frame: int) -> None:
    where = folder / shot
    where.mkdir(parents=True, exist_ok=True)
    move = (3.0 * frame, -2.0 * frame)
    picture = np.full((600, 800, 4 if shot == "CG" else 3), 90, np.uint8)
    if shot == "CG":
        picture[..., 3] = 0
        cv2.rectangle(picture, (180, 320), (620, 500), (90, 90, 90, 255), -1)
    cv2.imwrite(str(where / f"image-{shot}-frame{frame:03d}.png"), picture)

    def put(kind: str, content: object) -> None:
        (where / f"{kind}-{shot}-frame{frame:03d}.json").write_text(json.dumps(content), encoding="utf-8")

    shapes = {name: ring(name, move) for name in ("left_eye", "right_eye", "left_eyebrow", "right_eyebrow")}
    if shot == "CG":
        put("points", {"points": shown(CG, move)})
    elif shot == "test":
        put("shapes", {**shapes, "points": shown(TEST, move)})
    else:
        put("raw_shapes", shapes)
        put("revec_shapes", {"points": shown(SHOT, move)})


@pytest.fixture(scope="module")
def lionel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set") / "lionel"
    for shot in ("shot0", "shot4", "CG", "test"):
        for frame in range(2):
            write_frame(folder, shot, frame)
    return folder


def test_layouts_have_the_published_lengths_and_agree_on_names() -> None:
    assert (len(SHOT), len(TEST), len(CG)) == (43, 28, 45)
    assert len(set(SHOT)) == 43
    assert set(TEST) == set(SHOT[:28])
    assert {name for name in CG if name} == set(FACE)


def test_the_right_half_of_test_frames_runs_the_other_way() -> None:
    # shapes-test-frame000 of the data set: 14 and 17 are the outer and inner corner of the right eye, 20 and 24 the
    # ends of the right brow (x 541, 428, 557, 430), 5 and 25 lie at the bottom
    place = dict(zip(TEST, range(28)))
    assert (place["right_eye_3"], place["right_eye_0"], place["left_eye_0"]) == (14, 17, 0)
    assert (place["right_eyebrow_4"], place["right_eyebrow_0"], place["right_eyebrow_7"]) == (20, 24, 25)
    assert (place["left_eyebrow_0"], place["left_eyebrow_4"]) == (6, 10)


def test_one_name_is_one_place_in_all_layouts(lionel: Path) -> None:
    takes = {take.shot: take for take in read_source(lionel, None)}
    assert {shot: take.split for shot, take in takes.items()} == {
        "CG": "train",
        "shot0": None,
        "shot4": None,
        "test": "test",
    }
    for take in takes.values():
        for name, (x, y, seen) in take.frames[0].landmarks.items():
            assert (x, y, seen) == (*FACE[name], 1.0), (take.shot, name)
    assert [len(takes[shot].frames[0].landmarks) for shot in ("shot0", "test", "CG")] == [33, 28, 33]
    assert set(takes["test"].frames[0].shapes) == {"left_eye", "right_eye", "left_eyebrow", "right_eyebrow"}
    assert takes["CG"].notes == ("12 of the 45 CG points have no counterpart in the shots and are left out",)


def test_all_of_it_becomes_one_data_set(lionel: Path, tmp_path: Path) -> None:
    mined = mine(MineOptions((lionel,), tmp_path / "set", val=("shot4",)))
    assert mined.n_samples == {"train": 4, "val": 2, "test": 2}
    data = read_dataset(tmp_path / "set")
    rows = [row for row, sample in enumerate(data.samples) if sample.shot == "CG"]
    assert {data.samples[row].split for row in rows} == {"train"}
    at = data.sheet.landmark_names.index("right_eye_3")
    for row in rows:
        sample = data.samples[row]
        assert sample.shapes == {}
        side = abs(
            data.truth.landmarks[row, at] - data.truth.landmarks[row, data.sheet.landmark_names.index("left_eye_0")]
        )
        np.testing.assert_allclose(side / sample.pixel_scale, (527 - 245, 426 - 411), atol=0.02)
    corner = np.stack([data.picture(row)[:8, :8].reshape(-1, 3).mean(axis=0) for row in rows])
    assert np.ptp(corner, axis=0).max() > 20  # each render got its own background
    shot = next(row for row, sample in enumerate(data.samples) if sample.shot == "shot0")
    np.testing.assert_allclose(data.picture(shot)[:8, :8], 90, atol=2)


def test_backgrounds_come_from_their_seed_and_other_counts_are_refused(tmp_path: Path) -> None:
    assert np.array_equal(draw_background(32, 3), draw_background(32, 3))
    assert not np.array_equal(draw_background(32, 3), draw_background(32, 4))
    (tmp_path / "CG").mkdir()
    (tmp_path / "CG" / "points-CG-frame000.json").write_text(json.dumps({"points": [[1, 1]] * 46}))
    with pytest.raises(DocumentError, match=r"has 46 points; wanted 43 \(a shot\), 28 \(test\) or 45 \(CG\)"):
        read_source(tmp_path, None)
