"""Seams by the whole shot, on made-up holds: which landmarks are used, and what comes of holds that no head fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.errors import CancelledError
from rotopaint_ai.jobs import Cancel, Event
from rotopaint_ai.pipeline import head_solve, shot_seams, shot_widths
from rotopaint_ai.pipeline.frame_store import LookStore
from rotopaint_ai.pipeline.head_solve import build_of
from rotopaint_ai.pipeline.known_head import KnownHead
from rotopaint_ai.pipeline.overrides import NO_OVERRIDES, Overrides
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.shot_seams import (
    NEW_UNSURE,
    _as_sure_as_head,
    _observe_holds,
    hold_of,
    movable_seams,
    with_shot_seams,
)
from rotopaint_ai.seams.placement import PlacedSeam
from rotopaint_ai.shapes.samples import open_curve_distance, spline_points
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet

Array = np.ndarray[Any, Any]
N_HOLDS, FACE_PX = 6, 100.0
FACE = {"a": (-0.9, -0.9), "b": (-0.4, 0.8), "c": (-0.3, -0.2), "d": (-0.8, 0.1), "e": (-0.7, 0.6)}  # right sides
PLACES = {f"{name}_{side}": (x * sign, y) for side, sign in (("R", 1), ("L", -1)) for name, (x, y) in FACE.items()}
SIDES = {"seam_right": ("d_R", "e_R"), "seam_left": ("d_L", "e_L")}
SHEET = Sheet(
    "made up",
    tuple(LandmarkSpec(name, mirror=name[:-1] + ("L" if name.endswith("R") else "R")) for name in PLACES),
    (
        *(ShapeSpec(name, closed=False, n_points=2, role="seam", on_landmarks=dict(enumerate(ends)))
          for name, ends in SIDES.items()),
        ShapeSpec("seam_bridge", closed=False, n_points=2, role="seam", on_landmarks={0: "c_R", 1: "c_L"}),
    ),
)  # fmt: skip


def record_of(frame: int) -> FrameRecord:
    at = {name: FACE_PX / 2 * np.array(xy) + (100 + frame, 100) for name, xy in PLACES.items()}
    shapes = {}
    for spec in SHEET.shapes:
        first, last = (at[name] for name in spec.on_landmarks.values())
        third = (last - first) / 3
        shapes[spec.name] = [[*first, *-third, *third], [*last, *-third, *third]]
    landmarks = [[float(x), float(y), 1.0] for x, y in at.values()]
    errors = dict.fromkeys(SHEET.shape_names, 1.0)
    return FrameRecord(frame, "done", crop=(100.0, 100.0, 130.0), landmarks=landmarks, shapes=shapes, errors=errors)


@dataclass
class Evidence:
    """Finds each seam in the middle of its strip."""

    zooms: tuple[int, ...] = (1, 2)
    calls: int = 0
    tell: Callable[[], None] = lambda: None

    def features(self, picture: Array) -> None:
        """It looks at strips alone."""

    def __call__(self, strips: Array) -> Array:
        self.calls += 1
        self.tell()
        logits = np.zeros((1, strips.shape[1] // 2, strips.shape[2] + 1), np.float32)
        logits[..., strips.shape[2] // 2] = 5
        return logits


@dataclass
class Plate:
    """Grey frames."""

    read_frames: list[int] = field(default_factory=list)

    def read(self, frame: int, **_: object) -> SimpleNamespace:
        self.read_frames.append(frame)
        grey = np.full((200, 220, 3), 0.2, np.float32)
        return SimpleNamespace(codes=grey, origin=(0, 0), region=lambda x, y, w, h: (grey[y : y + h, x : x + w],))


def plan_of(
    evidence: Evidence,
    plate: Plate,
    still: tuple[str, ...] = (),
    work: Overrides = NO_OVERRIDES,
    head: KnownHead | None = None,
) -> Plan:
    plan = SimpleNamespace(
        head=head,
        pack=SimpleNamespace(sheet=SHEET, card={"seams_left_as_predicted": still}),
        models=SimpleNamespace(find_seams=evidence),
        work=work,
        threads=1,
        looks=LookStore(),
        kept=SimpleNamespace(look_up=lambda frame, area: None),
        plate=plate,
    )
    return cast(Plan, plan)


@pytest.mark.parametrize("still", [(), ("seam_bridge",), ("seam_right",), ("seam_right", "seam_left")])
def test_landmarks_of_seams_that_stay_are_points_of_the_head(still: tuple[str, ...]) -> None:
    plan = plan_of(Evidence(), Plate(), still)
    specs = movable_seams(plan)
    shot = _observe_holds([hold_of(record_of(k), specs) for k in range(N_HOLDS)], specs, SHEET)
    assert shot.points_HL.shape == (N_HOLDS, len(PLACES) - 2 * len(specs))
    mirror = build_of(specs, SHEET, shot).mirror_L
    assert (mirror is None) == (still == ("seam_right",))  # one side's ends lie on its seam, the other's do not
    if mirror is not None:
        faces = shot.points_HL[0] - 100
        assert faces[mirror] == pytest.approx(-faces.conj())
    settled = list(with_shot_seams(plan, [record_of(k) for k in range(N_HOLDS)], lambda event: None, Cancel()))
    assert all(each.shapes[name] == record_of(each.frame).shapes[name] for each in settled for name in still)


def test_sides_that_mirror_each_other_are_cut_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them lies on an outline and is measured too wide."""
    measured = {"seam_right": 0.04, "seam_left": 0.01, "seam_bridge": 0.03}
    seen = {name: np.full(5, width) for name, width in measured.items()}
    monkeypatch.setattr(shot_widths, "_seen_widths", lambda plan, names, hold: {name: seen[name] for name in names})
    monkeypatch.setattr(shot_widths, "DOUBT", 0.0)
    plan = plan_of(Evidence(), Plate())
    found = shot_widths._measure_widths(plan, list(measured), [record_of(0)])
    assert found == pytest.approx({"seam_right": 0.02, "seam_left": 0.02, "seam_bridge": 0.03})
    alone = shot_widths._measure_widths(plan, ["seam_right", "seam_bridge"], [record_of(0)])
    assert alone == pytest.approx({"seam_right": 0.04, "seam_bridge": 0.03})  # its other side is never seen


def test_a_frame_whose_curve_is_not_finite_stays_and_spoils_no_other() -> None:
    records = [record_of(k) for k in range(N_HOLDS)]
    records[2] = replace(records[2], shapes={**records[2].shapes, "seam_left": [[np.nan] * 6] * 2})
    records[3] = replace(records[3], landmarks=[[*row[:2], np.nan] for row in records[3].landmarks or () if row])
    settled = list(with_shot_seams(plan_of(Evidence(), Plate()), records, lambda event: None, Cancel()))
    assert settled[2:4] == records[2:4]
    assert all(settled[k] != records[k] for k in (0, 1, 4, 5))
    assert np.isfinite([list(settled[k].shapes.values()) for k in (0, 1, 4, 5)]).all()


def test_hand_drawn_shapes_do_not_change_model_results() -> None:
    records = [record_of(k) for k in range(N_HOLDS)]
    drawn = [[row[0] + 9, *row[1:]] for row in records[2].shapes["seam_left"]]
    plan = plan_of(Evidence(), Plate(), work=Overrides(splines={2: {"seam_left": drawn}}))
    settled = list(with_shot_seams(plan, records, lambda event: None, Cancel()))
    alone = list(with_shot_seams(plan_of(Evidence(), Plate()), records, lambda event: None, Cancel()))
    assert settled == alone


def test_where_no_head_fits_frames_keep_their_own_seams_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(head_solve, "damped_step", singular)
    records = [record_of(k) for k in range(N_HOLDS)]
    reported = list[Event]()
    settled = list(with_shot_seams(plan_of(Evidence(), Plate()), records, reported.append, Cancel()))
    assert settled == records
    assert [event.kind for event in reported] == ["warning"]
    assert "0-5" in reported[0].facts["message"]


@pytest.mark.parametrize(("known", "zooms"), [((1, 2), [1, 1, 2]), ((1,), [1, 1, 1])])
def test_seams_are_looked_at_as_closely_as_the_network_can(
    known: tuple[int, ...], zooms: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    sight = head_solve.sight

    def watch(*given: Any) -> Any:
        asked.append(given[-1])
        return sight(*given)

    monkeypatch.setattr(head_solve, "sight", watch)
    records = [record_of(k) for k in range(N_HOLDS)]
    list(with_shot_seams(plan_of(Evidence(zooms=known), Plate()), records, lambda event: None, Cancel()))
    assert asked == [zoom for zoom in zooms for _ in records]


def test_a_seam_moves_part_of_the_way_to_the_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    margins: list[float] = []
    monkeypatch.setattr(shot_seams, "know_character", lambda *given: True)
    monkeypatch.setattr(shot_seams, "_gives_way", lambda hold, name, on_head, far_px: margins.append(far_px))
    records = [record_of(k) for k in range(N_HOLDS)]
    plan = plan_of(Evidence(), Plate())
    list(with_shot_seams(plan, records, lambda event: None, Cancel()))
    specs = movable_seams(plan)
    sizes = abs(_observe_holds([hold_of(each, specs) for each in records], specs, SHEET).heads.factor_H)
    assert sizes.min() > 10  # so that a share is no quotient
    assert sorted({round(margin, 6) for margin in margins}) == sorted({round(shot_seams.OUTLIER * s, 6) for s in sizes})


def known_head(wider: float = 1.0) -> KnownHead:
    """The made-up face on a ball, seams straight between their ends; `wider` stretches it across."""
    places = {name: np.array([wider * x, y, (2 - x * x - y * y) / 3]) for name, (x, y) in PLACES.items()}
    seams = {}
    for spec in SHEET.shapes:
        first, last = (places[name] for name in spec.on_landmarks.values())
        third = (last - first) / 3
        seams[spec.name] = np.array([first, last, first - third, last - third, first + third, last + third])
    return KnownHead(places, dict.fromkeys(places, 0.01), seams)


@pytest.mark.parametrize("n_holds", [1, 2, 6])
def test_seams_lie_where_a_known_head_has_them(n_holds: int) -> None:
    """One hold is enough, a seam that its picture shows nowhere and that a frame has elsewhere comes back, and so does
    one that the pack leaves as predicted."""
    records = [record_of(k) for k in range(n_holds)]
    away = [[x + 12, *rest] for x, *rest in records[0].shapes["seam_left"]]
    records[0] = replace(records[0], shapes={**records[0].shapes, "seam_left": away})
    plan = plan_of(Evidence(), Plate(), ("seam_right",), head=known_head())
    settled = list(with_shot_seams(plan, records, lambda event: None, Cancel()))
    for each in settled:
        for name, rows in record_of(each.frame).shapes.items():
            apart = open_curve_distance(*(spline_points(np.array(part)) for part in (rows, each.shapes[name])))
            assert apart < (3.0 if name == "seam_left" else 1.5), name


def test_another_characters_head_moves_nothing_that_would_not_move_without_it() -> None:
    records = [record_of(k) for k in range(N_HOLDS)]
    other = known_head()
    other = replace(other, seams={name: at + (0.5, 0.3, 0.0) for name, at in other.seams.items()})
    for still in ((), ("seam_bridge",), tuple(spec.name for spec in SHEET.shapes)):
        plans = [plan_of(Evidence(), Plate(), still, head=head) for head in (None, other)]
        without, with_it = (list(with_shot_seams(plan, records, lambda event: None, Cancel())) for plan in plans)
        assert without == with_it


@pytest.mark.parametrize("squeezed", [0.0, 1e-6, np.array([1.0, 0.0, 0.0]), np.array([-2.0, 2.0, -20.0])])
def test_a_head_of_no_possible_face_moves_nothing_that_would_not_move_without_it(squeezed: Any) -> None:
    records = [record_of(k) for k in range(N_HOLDS)]
    head = known_head()
    marks, seams = ({name: squeezed * at for name, at in part.items()} for part in (head.landmarks, head.seams))
    seams = {name: at + (0.6, 0.0, 0.0) for name, at in seams.items()}
    plans = [plan_of(Evidence(), Plate(), head=each) for each in (None, replace(head, landmarks=marks, seams=seams))]
    with np.errstate(all="ignore"):
        without, with_it = (list(with_shot_seams(plan, records, lambda event: None, Cancel())) for plan in plans)
    assert without == with_it


def test_a_head_that_lacks_a_seam_is_not_used() -> None:
    head = known_head()
    head = replace(head, seams={name: at for name, at in head.seams.items() if name != "seam_bridge"})
    specs = [spec for spec in SHEET.shapes if spec.name != "seam_bridge"]
    assert head.of_sheet(specs, SHEET) is not None
    assert head.of_sheet(SHEET.shapes, SHEET) is None


def test_a_cancel_does_not_wait_for_queued_work() -> None:
    cancel = Cancel()
    evidence = Evidence(tell=cancel.request)
    with pytest.raises(CancelledError):
        with_shot_seams(plan_of(evidence, Plate()), [record_of(k) for k in range(60)], lambda event: None, cancel)
    assert evidence.calls < 20


def test_a_frame_without_a_kept_look_is_read_once(tmp_path: Path) -> None:
    plate = Plate()
    plan = plan_of(Evidence(), plate)
    plan.looks.open_in(tmp_path)
    with_shot_seams(plan, [record_of(k) for k in range(N_HOLDS)], lambda event: None, Cancel())
    plan.looks.close()
    assert sorted(plate.read_frames) == list(range(N_HOLDS))


def test_a_seam_is_no_surer_than_the_new_head_that_it_was_looked_for_on() -> None:
    found = PlacedSeam(np.zeros((4, 6)), 0.9, 1.0, 0.5)
    assert _as_sure_as_head(found, 0.0).expected_error_px == 0.5
    far = _as_sure_as_head(found, 4.0)
    assert far.expected_error_px == pytest.approx(np.hypot(0.5, 4.0 * NEW_UNSURE))
    assert far.seen == found.seen
