"""The head that a pack keeps of its character: fitted to keyed holds, written, and read back from anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.pack import HEAD, Pack
from rotopaint_ai.pipeline.known_head import KnownHead, fit_known_head, read_head
from rotopaint_ai.shapes.head_cameras import Cameras, rotations
from rotopaint_ai.shapes.samples import point_numbers
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.pack.select_models import find_known_head

Array = np.ndarray[Any, Any]
SIDE = {"a": (-1.2, -1.0), "b": (-0.5, 1.2), "c": (-0.3, -0.3), "d": (-0.8, 0.4), "e": (-0.6, -1.1), "f": (-1.0, 0.9)}
MARKS = {f"{name}_{side}": (x * sign, y) for side, sign in (("R", 1), ("L", -1)) for name, (x, y) in SIDE.items()}
SHEET = Sheet(
    "made up",
    tuple(LandmarkSpec(name, mirror=name[:-1] + ("L" if name.endswith("R") else "R")) for name in MARKS),
    (ShapeSpec("bridge", closed=False, n_points=3, role="seam", on_landmarks={0: "d_R", 2: "d_L"}),),
)


def in_space(x: float, y: float) -> Array:
    return np.array([x, y, 0.9 - 0.35 * (x * x + y * y)])


def filmed(n_holds: int, turn: float, *, bend: float = 0.0) -> tuple[Array, Array]:
    """Landmarks (H, L) and the bridge (H, D) of a head that turns by up to `turn`; the bridge wanders by `bend` px."""
    draw = np.random.default_rng(3)
    spins = draw.uniform(-turn, turn, (n_holds, 3)) * (1, 1, 0.3)
    cameras = Cameras(draw.uniform(90, 110, n_holds), rotations(spins), draw.uniform(200, 240, (n_holds, 2)))
    marks = cameras.see(np.array([in_space(*xy) for xy in MARKS.values()]))
    line = [
        (-0.8, 0.4),
        (0.0, 0.1),
        (0.8, 0.4),
        (-1.0, 0.5),
        (-0.3, 0.1),
        (0.5, 0.3),
        (-0.5, 0.3),
        (0.3, 0.1),
        (1.0, 0.5),
    ]
    bridge = cameras.see(np.array([in_space(*xy) for xy in line]))
    return marks, bridge + 1j * bend * draw.normal(size=(n_holds, 1))


def test_keyed_holds_give_a_head_that_shows_the_seam_as_keyed(tmp_path: Path) -> None:
    marks, bridge = filmed(20, 0.5)
    keyed = np.ones(marks.shape, bool)
    keyed[::3, 0] = False
    marks[::3, 0] += 20  # a wrong guess of what nobody keyed
    head = fit_known_head(SHEET, marks, keyed, {"bridge": bridge})
    assert head is not None
    assert {*head.landmarks} == {*MARKS}
    head.write(tmp_path / HEAD)
    again = read_head(cast(Pack, SimpleNamespace(folder=tmp_path)))
    assert again is not None
    points, motion = cast(tuple[Array, Array], again.of_sheet(SHEET.shapes, SHEET))
    assert len(points) == 10 + 9
    assert motion.max() < 0.02  # inferred places count for nothing
    depths = points[:10, 2] - [in_space(*MARKS[name])[2] for name in MARKS if not name.startswith("d")]
    assert np.ptp(depths) < 0.15


@pytest.mark.parametrize(("n_holds", "turn", "bend"), [(11, 0.5, 0.0), (20, 0.02, 0.0), (20, 0.5, 12.0)])
def test_few_holds_a_head_that_does_not_turn_and_a_seam_that_wanders_give_none(
    n_holds: int, turn: float, bend: float
) -> None:
    marks, bridge = filmed(n_holds, turn, bend=bend)
    assert fit_known_head(SHEET, marks, np.ones(marks.shape, bool), {"bridge": bridge}) is None


GOOD = {"format": "rotopaint-head", "version": 1, "landmarks": {"a": [0, 0, 0, 0.1]}, "seams": {"s": [[0, 0, 0]] * 6}}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "[" * 100_000, json.dumps({**GOOD, "version": 2})]
    + [json.dumps({**GOOD, **part}) for part in (
        {"landmarks": []}, {"landmarks": {"a": [0, 0, 0]}}, {"landmarks": {"a": ["x", 0, 0, 0]}}, {"seams": {"s": []}},
        {"seams": {"s": [[0, 0, float("nan")]]}}, {"seams": {"s": [[0, 0, 1e9]]}}, {"seams": None},
        {"landmarks": {"a": [[0, 0, 0, 0], [1, 1, 1]]}})],
)  # fmt: skip
def test_a_file_that_is_no_head_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / HEAD).write_text(content)
    with pytest.raises(PackError) as refused:
        read_head(cast(Pack, SimpleNamespace(folder=tmp_path)))
    assert HEAD in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_pack_without_the_file_knows_no_head(tmp_path: Path) -> None:
    pack = cast(Pack, SimpleNamespace(folder=tmp_path))
    assert read_head(pack) is None
    (tmp_path / HEAD).write_text(json.dumps(GOOD))
    head = read_head(pack)
    assert isinstance(head, KnownHead)
    assert head.motion == {"a": 0.1}


def data_set(characters: tuple[str, ...], keyed: Array, bridge: Array) -> Dataset:
    """A data set of keyed landmarks (H, L) and bridges (H, D), each twice as on twos."""
    marks = np.repeat(np.stack([keyed.real, keyed.imag], 2), 2, axis=0).astype(np.float32)
    points = np.repeat([point_numbers(each) for each in bridge], 2, axis=0).astype(np.float32)
    samples = [SimpleNamespace(character=characters[k % len(characters)]) for k in range(len(marks))]
    truth = SimpleNamespace(landmarks=marks, points=points)
    return cast(Dataset, SimpleNamespace(sheet=SHEET, truth=truth, samples=samples))


def test_a_training_finds_the_head_of_one_character_and_of_several_none() -> None:
    marks, bridge = filmed(20, 0.5)
    keyed = marks.copy()
    keyed[::3, 0] = np.nan
    gaps, whole = (data_set(("anna",), each, bridge) for each in (keyed, marks))
    head = find_known_head(gaps, whole)
    assert head is not None
    same = fit_known_head(SHEET, marks, np.isfinite(keyed), {"bridge": bridge})
    assert same is not None
    shared = [(head.landmarks[name], same.landmarks[name]) for name in MARKS]  # each pose counts once
    np.testing.assert_allclose(*np.array(shared).transpose(1, 0, 2), atol=1e-3)
    assert find_known_head(*(data_set(("anna", "bo"), each, bridge) for each in (keyed, marks))) is None
