"""Exchange files of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document, nuke
from rotopaint_ai.jobs import Event, RunJob
from rotopaint_ai.pipeline import export
from rotopaint_ai.pipeline.executor import Eta
from rotopaint_ai.pipeline.export import (
    check_exports,
    keep_changed_exports,
    record_exports,
    write_exports,
    write_nuke_in_parts,
)
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape


def _document(n_frames: int = 5) -> RotoDocument:
    def key(frame: int, n: int) -> Key:
        tangents = [(-1.0, 0.5, 1.0, -0.5)] * n
        if n == 3:  # the outer tangents of an open spline draw nothing
            tangents = [(0.0, 0.0, 1.0, -0.5), tangents[1], (-1.0, 0.5, 0.0, 0.0)]
        places = [(10.0 * i + frame, 20.0 + i * frame) for i in range(n)]
        return Key(tuple(ControlPoint(*place, *tangent) for place, tangent in zip(places, tangents)))

    frames = range(1001, 1001 + n_frames)
    shapes = (
        RotoShape("seam", False, "seam", {f: key(f - 1000, 3) for f in frames}, 4.5, 1.0, visible={1003: False}),
        RotoShape("eye", True, "matte", {f: key(f - 1000, 4) for f in frames}, feather_px=2.0),
        RotoShape("brow", True, "matte", {}),
    )
    landmarks = LandmarkKeys(("a",), {f: (Landmark(1.0, 2.0, 0.5),) for f in frames})
    return RotoDocument(640, 360, 1001, 1000 + n_frames, landmarks=landmarks, shapes=shapes)


@pytest.mark.parametrize("n_shapes", [0, 1, 2, 3])
def test_nuke_in_parts_is_the_same_file_as_in_one(tmp_path: Path, n_shapes: int) -> None:
    whole = _document()
    document = RotoDocument(640, 360, 1001, 1005, landmarks=whole.landmarks, shapes=whole.shapes[:n_shapes])
    shown, lost = write_nuke_in_parts(tmp_path / "parts.nk", document)
    proof = nuke.write_report(tmp_path / "one.nk", document)
    assert (tmp_path / "parts.nk").read_bytes() == (tmp_path / "one.nk").read_bytes()
    assert shown.faults == ()
    assert shown.n_shapes == min(n_shapes, 2)  # the third has no key
    assert shown.max_distance_px <= proof.max_error_px + 1e-9  # handles bound the curve
    assert lost == proof.losses


def test_every_format_asked_for_is_written_once(tmp_path: Path) -> None:
    job = RunJob("p", str(tmp_path), ("1,2,3,4",), exports=("nuke", "SVG", "nuke", "rotopaint"))
    written = write_exports(_document(), job, tmp_path)
    assert [item.path for item in written] == ["shapes.roto.json", "shapes.nk", "shapes.svg"]
    assert all((tmp_path / item.path).is_file() and item.max_distance_px <= 0.02 for item in written)
    assert all(item.matte_difference <= 1e-4 for item in written)
    n_keys = sum(len(shape.keys) for shape in _document().shapes)
    assert [item.n_keys for item in written] == [n_keys, n_keys, n_keys - 1]  # no drawing where the seam is hidden


def test_what_somebody_changed_since_is_kept(tmp_path: Path) -> None:
    job = RunJob("p", str(tmp_path), ("1,2,3,4",), exports=("nuke", "svg"))
    record_exports(tmp_path, write_exports(_document(), job, tmp_path))
    names = ["shapes.roto.json", "shapes.nk", "shapes.svg"]
    told: list[Event] = []
    keep_changed_exports(tmp_path, names, told.append)
    assert not told  # all is as the run wrote it
    record_exports(tmp_path, write_exports(_document(), replace(job, exports=("nuke",)), tmp_path))
    (tmp_path / "shapes.svg").write_text("by hand")
    keep_changed_exports(tmp_path, names[:2], told.append)
    assert not told  # a run that does not write it leaves it
    for _ in range(2):
        (tmp_path / "shapes.nk").write_text("by hand")
        keep_changed_exports(tmp_path, names[:2], told.append)
        assert not (tmp_path / "shapes.nk").exists()
    assert [(tmp_path / f"shapes.other-{n}.nk").read_text() for n in (1, 2)] == ["by hand", "by hand"]
    assert told[0].facts["message"] == (
        "shapes.nk was changed by hand since the last run; that file is kept as shapes.other-1.nk"
    )
    keep_changed_exports(tmp_path, names, told.append)
    assert (tmp_path / "shapes.other-1.svg").read_text() == "by hand"  # though a run without it came between


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"shapes.nk": 1}'])
def test_a_damaged_record_of_the_last_run_stops_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / ".exports.json").write_text(content)
    (tmp_path / "shapes.nk").touch()
    keep_changed_exports(tmp_path, ["shapes.nk"])
    assert (tmp_path / "shapes.nk").exists()


@pytest.mark.parametrize("name", ["nuke", "silhouette"])
@pytest.mark.parametrize("n_apart", [0, 1, 2])
def test_a_group_whose_shapes_stand_apart_is_written(tmp_path: Path, name: str, n_apart: int) -> None:
    whole, group = _document(), Layer("face")
    seam, eye = whole.shapes[:2]
    other, away = replace(eye, name="other"), replace(eye, name="hand", subtract=True)
    grouped = [replace(shape, layer=group) for shape in (seam, eye)]
    shapes = (grouped[0], *(other, away)[:n_apart], grouped[1])
    [_, written] = write_exports(
        replace(whole, shapes=shapes), RunJob("p", "o", ("1,2,3,4",), exports=(name,)), tmp_path
    )
    assert written.error == ""


def test_the_countdown_of_frames_ends_at_the_time_of_the_exports() -> None:
    """By hand: 1,000 poses at 0.3 ms each, and Cryptomatte takes eight times as long, by when the other worker is
    done."""
    names = ("Nuke", "svg", "ssf", "cryptomatte", "rotopaint", "nuke")
    assert export.expected_s(names, 100, 10, 2) == pytest.approx(2.4)
    assert export.expected_s(names, 100, 10, 1) == pytest.approx(0.3 * (3.5 + 1 + 1 + 8))
    assert export.expected_s(names, 60, 10, 2) == pytest.approx(0.18 * 13.5)  # too short for more processes
    assert export.expected_s(names, 20, 10, 2) == 0.0  # a moment, of which nobody is told
    eta = Eta(total=2, done=0, after_s=2.4)
    assert eta.step()["eta_s"] >= 2.4
    assert eta.step()["eta_s"] == 2.4


def test_exports_side_by_side_are_those_of_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LEAST_S", 0.0)
    monkeypatch.setattr(export, "REPORTED_S", 0.0)
    names = ("nuke", "svg", "ssf", "labelme", "coco")
    found = {}
    for folder, threads in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        job = RunJob("p", str(tmp_path / folder), ("1,2,3,4",), exports=names)
        events: list[Event] = []
        given = {"eye": "left eye"}
        made = write_exports(_document(), job, tmp_path / folder, given, sink=events.append, threads=threads)
        files = {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        assert [event.facts["done"] for event in events] == [0, 1, 2, 3, 4, 5]
        assert events[-1].facts["eta_s"] == 0
        found[folder] = made, files
    assert found["one"] == found["two"]
    assert [each.error for each in found["two"][0]] == [""] * 6


def test_a_process_that_ends_leaves_its_formats_to_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "LEAST_S", 0.0)
    monkeypatch.setattr(export, "_MODULE", "rotopaint_ai.no_such_module")
    job = RunJob("p", str(tmp_path), ("1,2,3,4",), exports=("nuke", "svg"))
    made = write_exports(_document(), job, tmp_path, threads=2)
    assert [(each.path, each.error) for each in made[1:]] == [("shapes.nk", ""), ("shapes.svg", "")]
    assert (tmp_path / "shapes.svg").is_file()


def test_a_process_imports_nothing_from_the_folder_it_is_asked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("open('ran', 'w').close()\nraise SystemExit\n")
    document.write(tmp_path / "shapes.roto.json", _document())
    monkeypatch.chdir(tmp_path)
    worker = export._Worker(Path("shapes.roto.json"), Path())
    done = worker.ask("svg")
    worker.close()
    assert done is not None
    assert done.error == ""
    assert (tmp_path / "shapes.svg").is_file()
    assert not (tmp_path / "ran").exists()


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="wanted some of rotopaint, nuke, svg"):
        check_exports(["nuke", "houdini"])


def test_the_slowest_export_bounds_the_time_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_TIMES", {"slow": 9.0, "quick": 1.0})
    reported: list[Event] = []
    export._ExportProgress(("slow", "quick"), 2, 1.0, reported.append)
    export._ExportProgress(("quick", "quick too"), 2, 1.0, reported.append)
    assert [event.facts["eta_s"] for event in reported] == [9.0, 1.0]  # two workers: 9 and 1 side by side, then 1 and 1
