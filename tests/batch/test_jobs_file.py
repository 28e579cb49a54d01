"""A jobs file is checked at the door, in one line that names the shot."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.batch.jobs_file import Show, read_show
from rotopaint_ai.batch.show_plan import plan_show
from rotopaint_ai.batch.summary import PAGE_DATA, claim_show_folder, summarise_show
from rotopaint_ai.batch.tasks import chunks
from rotopaint_ai.errors import UsageError
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.project import Project, State
from rotopaint_ai.project.face_groups import choose_face
from rotopaint_ai.project.state import CropBox

GOOD = """
out: renders
defaults: {export: [nuke, svg], chunk: 20, crop: auto}
shots:
  - {name: sh010, plates: plates/a.####.exr, crop: "342,142,280,297", frames: 1001-1100}
  - {name: sh020, plates: plates/b.mov, crop: ["1:10,10,90,90", "40:20,10,90,90"], retries: 0, reduce_keys: 0.5}
  - {name: sh030, plates: /elsewhere/c.####.dpx, export: [], clean: false, frames: 7}
"""


def test_shots_take_the_defaults_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "show.yaml"
    path.write_text(GOOD)
    show = read_show(path)
    first, second, third = show.shots
    assert show.out == tmp_path / "renders"
    assert first.job.plates == str(tmp_path / "plates/a.####.exr")
    assert first.job.out == str(tmp_path / "renders/sh010")
    assert (first.job.crops, first.job.exports, first.chunk, first.retries) == (
        ("342,142,280,297",),
        ("nuke", "svg"),
        20,
        2,
    )
    assert (second.job.crops[1], second.retries, second.job.key_tolerance_px) == ("40:20,10,90,90", 0, 0.5)
    assert (third.job.plates, third.job.crops, third.job.exports) == ("/elsewhere/c.####.dpx", ("auto",), ())
    assert (third.job.clean, third.job.frames) == (False, "7")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shots: []\nout: x", "'shots' is empty"),
        ("shots: [{name: a, plates: p, crop: auto}]", "yaml: out is missing"),
        ("out: x\nshot: []", "shots is missing; is 'shot' meant for it"),
        ("out: x\nshots: [{name: a, plates: p, crops: auto}]", "a: has an unknown field 'crops'; did you mean 'crop'"),
        ("out: x\nshots: [{name: ../a, plates: p, crop: auto}]", "it names a folder"),
        ("out: x\nshots: [{name: a, plates: 3, crop: auto}]", "a: plates is 3; wanted text"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto, frames: 9-1}]", "a: frames 9-1"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto, chunk: 0}]", "a: chunk 0"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto}, {name: A, plates: q, crop: auto}]", "two shots"),
        (
            "out: x\ndefaults: {crop: auto, project: p.rotopaint}\nshots: [{name: a, plates: p}, "
            "{name: b, plates: q, project: ./p.rotopaint}]",
            "'a' and 'b' share the project p.rotopaint; give each its own",
        ),
        ("out: [", "is not YAML"),
        ("out: !!int x", "is not YAML"),
        ("out: !!bool maybe", "is not YAML"),
        ("out: !!timestamp x", "is not YAML"),
        ('{"out": ' + 5000 * "1" + "}", "is not YAML"),
        ("- 1", "yaml: is a list of 1; wanted named fields"),
        ("out: ''\nshots: [{name: a, plates: p, crop: auto}]", "'out' is empty"),
        ("out: x\nshots: {a: {plates: p}}", "shots is a group of 1 named fields; wanted a list"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto}]\nshots: [{name: b}]", "'shots' occurs 2 times"),
        ('{"out": "x", "shots": [{"name": "a", "crop": "auto", "crop": "1,1,9,9"}]}', "'crop' occurs 2 times"),
        ("out: x\nshots: [{name: show.json, plates: p, crop: auto}]", "a file of the show has this name"),
        ("out: x\nshots: [{name: 1.50, plates: p, crop: auto}]", "shot name 1.5: .*, in quotes"),
        ("out: x\nshots: [{name: a, plates: p, crop: {1001: '1,1,9,9'}}]", "a: crop is a group of 1"),
        ("out: x\nshots: [{name: a, plates: p, crop: [1, 2, 3]}]", "a: crop .*: wanted X,Y,W,H"),
        ("out: x\nshots: [{name: a, plates: p, crop: [1, 2, 3, x]}]", "a: crop .*: wanted X,Y,W,H"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto, resources: {GPU: 0}}]", "a: resources .*: wanted amounts"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto, retries: -1}]", "a: chunk 50, retries -1: wanted at least"),
        ("out: x\ndefaults: {chunk: many}\nshots: [{name: a}]", "defaults: chunk is 'many'; wanted a whole number"),
        ("out: x\nshots: [{name: a, plates: p, crop: auto, frames: 1:30}]", "a: frames '1:30'"),
        ("out: x\nshots: [{name: a, plates: p, resources: &r {GPU: *r}}]", "contains itself, or is nested"),
        ('out: "x\\0"\nshots: [{name: a, plates: p}]', "holds a null or half a character"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "show.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as refused:
        read_show(path)
    assert str(refused.value).startswith("show.yaml")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffout: x\r\nshots:\r\n  - name: 010\r\n    plates: p\r\n    crop: [1, 2.5, 30, 40]\r\n",
        '{\n\t"out": "x",\n\t"shots": [{"name": "010", "plates": "p", "crop": ["1,2.5,30,40"]}]\n}',
    ],
    ids=["YAML of a Windows editor", "JSON with tabs"],
)
def test_a_name_stays_as_it_is_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "show.yaml"
    path.write_bytes(text.encode())
    (shot,) = read_show(path).shots
    assert (shot.name, shot.job.crops) == ("010", ("1,2.5,30,40",))


def test_a_jobs_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.yaml", tmp_path):
        with pytest.raises(UsageError, match="no such jobs file"):
            read_show(path)


def test_a_folder_belongs_to_one_jobs_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    for path in (one, other):
        path.write_text("out: x\nshots: [{name: a, plates: p, crop: auto}]")
    claim_show_folder(read_show(one))
    claim_show_folder(read_show(one))
    claim_show_folder(read_show(Path(os.path.relpath(one))))
    with pytest.raises(UsageError, match=r"other\.yaml: .* holds the show of \.\./one\.yaml; choose another 'out'"):
        claim_show_folder(read_show(other))
    (tmp_path / "x" / PAGE_DATA).unlink()
    claim_show_folder(read_show(other))
    other.write_text("out: one.yaml\nshots: [{name: a, plates: p, crop: auto}]")
    with pytest.raises(UsageError, match=r"one\.yaml: is a file; wanted a folder"):
        claim_show_folder(read_show(other))


def test_chunks_hold_every_frame_once() -> None:
    assert chunks([1001, 1002, 1003, 1007, 1008], 2) == [
        FrameRange(1001, 1002),
        FrameRange(1003, 1007),
        FrameRange(1008, 1008),
    ]


def test_a_shot_without_a_crop_is_refused_alone(tmp_path: Path) -> None:
    path = tmp_path / "show.yaml"
    path.write_text(
        "out: x\nshots:\n- {name: a, plates: p}\n- {name: b, plates: q, crop: auto}\n"
        "- {name: c, plates: r, project: gone.rotopaint}\n- {name: d, plates: s, crop: }\n"
        "- {name: e, plates: t, project: torn.rotopaint}\n"
    )
    (tmp_path / "torn.rotopaint").write_bytes(b"SQLite format 3\0" + bytes(5000))
    show = read_show(path)
    assert [shot.name for shot in show.shots] == ["b"]
    assert show.names == ("a", "b", "c", "d", "e")
    assert re.search("no crop box; add 'crop: X,Y,W,H'.*'crop: auto'", show.refused["a"])
    assert show.refused["d"] == show.refused["a"]
    assert "gone.rotopaint" in show.refused["c"]
    assert "torn.rotopaint: is damaged" in show.refused["e"]
    with pytest.raises(UsageError, match=r"show\.yaml: a: has no crop box"):
        show.shot("a")
    plan = plan_show(show)
    assert {"a", "c", "d"} < set(plan.refused)
    first, *_ = summarise_show(show, plan)
    assert (first.name, first.state, first.message) == ("a", "failed", show.refused["a"])


def test_a_shot_has_the_crop_boxes_of_the_face_that_is_named(tmp_path: Path) -> None:
    anna = State(crops={1001: CropBox(1, 2, 30, 30)}, face="Anna")
    bo = replace(choose_face(anna, "Bo", "annas"), crops={1004: CropBox(50, 2, 40, 40)})
    Project.create(tmp_path / "p.rotopaint", bo).close()
    path = tmp_path / "show.yaml"
    path.write_text("out: x\nshots: [{name: a, plates: p, project: p.rotopaint, face: Anna}]\n")
    job = read_show(path).shots[0].job
    assert (job.face, job.crops, job.model) == ("Anna", ("1001:1,2,30,30",), "annas")
    path.write_text("out: x\nshots: [{name: a, plates: p, project: p.rotopaint}]\n")
    assert read_show(path).shots[0].job.crops == ("1004:50,2,40,40",)
    path.write_text("out: x\nshots: [{name: a, plates: p, project: p.rotopaint, face: A/B}]\n")
    assert "holds '/'" in read_show(path).refused["a"]
    path.write_text("out: x\nshots: [{name: a, plates: p, crop: auto, face: Anna}]\n")
    with pytest.raises(UsageError, match=r"show\.yaml: a: --face: works only with a project"):
        read_show(path)


def test_an_unknown_shot_is_refused_with_the_closest_name() -> None:
    show = Show(Path("show.yaml"), Path("out"), names=("sh010", "sh020"), refused={"sh020": "has no crop box"})
    for name, words in (
        ("sh01", "show.yaml: no shot 'sh01'; did you mean 'sh010'?"),
        ("zzz", "show.yaml: no shot 'zzz'"),
        ("sh020", "show.yaml: sh020: has no crop box"),
    ):
        with pytest.raises(UsageError) as refused:
            show.shot(name)
        assert str(refused.value) == words
