"""A script's roto nodes are kept word for word and written back; what was edited is written into them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document, formats, limits, nuke, nuke_metadata, nuke_reader, nuke_script
from rotopaint_ai.shapes import edit_layers
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

REAL = Path(__file__).resolve().parents[3] / "shared/formats/nuke"
SCRIPTS = sorted(path for path in REAL.glob("*") if path.suffix in (".nk", ".gizmo")) if REAL.exists() else []

SCRIPT = """Root {
 inputs 0
 first_frame 1001
 last_frame 1100
 format "400 300 0 0 400 300 1 "
}
Group {
 name Puppet1
 onCreate "print 1"
}
 RotoPaint {
  cliptype none
  onCreate {exec 'boom'}
  label "[value curves]"
  addUserKnob {20 User}
  addUserKnob {22 go T "import os"}
  motionblur 1
  curves {{{v x3f99999a}
  {f 0}
  {n
   {layer Root
    {f 2097152}
    {t x43480000 x43160000}
    {a}
    {layer "My Head"
     {f 512}
     {t x42c80000 x42480000 0 x41200000 0 0 0 0 x41f00000 x40000000 1}
     {a bm x40800000 opc {{x447a4000 x3f000000 0 1 0 1} {x447c4000 1 0 1 0 1}}}
     {cubiccurve Brush1 512 catmullrom
      {cc
       {f 2080}
       {px x447a4000
        {x41200000 x41200000 1}
        {x41a00000 x41a00000 1}}}
      {t}
      {a r x3e4ccccd bs x41c80000}}
     {curvegroup eye 576 bezier
      {{cc
        {f 8192}
        {px {x447a4000 x447c4000}
         {0 0}
         {{{x41200000 0 1 x41200000 1} {x42480000 x41200000 1 0 1}} x41200000}
         {0 0}
         {x41200000 0}
         {x42480000 x41200000}
         {0 x41200000}
         {0 0}
         {x41a00000 x42480000}
         {0 0}}}
       idem}
      {tx x447a4000 x41f00000 x41a00000}
      {a r x3f000000 g 0 b 0 mbo 1 mb x40400000 ltn x447a4000 ltm x447c4000 ltt x40800000 tt x40800000}}
     {curvegroup mouth 512 bezier
      {{cc
        {f 8192}
        {p
         {0 0}
         {x41200000 x42c80000}
         {0 0}
         {0 0}
         {x42480000 x42c80000}
         {0 0}
         {0 0}
         {x41a00000 x43020000}
         {0 0}}}
       idem}
      {t}
      {a inv 1 osw x41200000}}}}}}}
  name Roto1
 }
end_group
"""


def read(text: str = SCRIPT) -> RotoDocument:
    return document.loads(document.dumps(nuke_reader.read_text(text).document))


def written(tmp_path: Path, meant: RotoDocument) -> tuple[str, RotoDocument, tuple[str, ...]]:
    proof = nuke.write_report(tmp_path / "a.nk", meant)
    assert proof.max_error_px <= 0.02
    text = (tmp_path / "a.nk").read_text(encoding="utf-8")
    return text, nuke_reader.read_text(text).document, proof.losses


def moved(shape: RotoShape, by: float) -> RotoShape:
    def there(key: Key) -> Key:
        return replace(key, points=tuple(point._replace(x=point.x + by) for point in key.points), slopes=None)

    return shape.with_keys({frame: replace(there(key), interpolation="linear") for frame, key in shape.keys.items()})


def body_of(text: str) -> str:
    return next(node.body for node in nuke_script.nodes(text) if node.kind == "RotoPaint")


def test_what_is_not_edited_comes_back_word_for_word(tmp_path: Path) -> None:
    meant = read()
    text, found, losses = written(tmp_path, meant)
    assert found == meant
    assert [shape.name for shape in found.shapes] == ["My Head/eye", "My Head/mouth"]
    before = body_of(SCRIPT)
    for gone in ("  onCreate {exec 'boom'}\n", '  label "[value curves]"\n', '  addUserKnob {22 go T "import os"}\n'):
        assert gone in before
        before = before.replace(gone.strip(), "")
    size = ' format "400 300 0 0 400 300 1 "\n'  # which the node had from its script's Root
    assert body_of(text).count(size) == 1
    assert body_of(text).replace(size, "").split() == before.split()
    assert [node.full_name for node in nuke_script.nodes(text)] == ["Puppet1", "Puppet1.Roto1"]
    assert not any("written back" in line for line in losses)


def test_an_edited_shape_stands_within_its_layer(tmp_path: Path) -> None:
    meant = read()
    edited = replace(moved(meant.shape("My Head/mouth"), 7.0), feather_px=3.0)
    text, found, _ = written(tmp_path, replace(meant, shapes=(meant.shapes[0], edited)))
    assert found.shape("My Head/mouth").feather_px == 3.0
    points = [point[:2] for point in found.shape("My Head/mouth").at(1001)]
    assert points == [pytest.approx(point[:2], abs=1e-3) for point in edited.at(1001)]
    assert found.shape("My Head/eye") == meant.shape("My Head/eye")
    for kept in ('{layer "My Head"', "x41f00000 x40000000", "bm x40800000", "cubiccurve Brush1", "inv 1", "mbo 1"):
        assert kept in text


def test_a_transform_that_ends_early_is_usual_beyond() -> None:
    """The list has only the pivot and x, 10 px to the right: no rotation, no scale."""
    whole = "{t x42c80000 x42480000 0 x41200000 0 0 0 0 x41f00000 x40000000 1}"
    mouth = read(SCRIPT.replace(whole, "{t x42c80000 x42480000 0 x41200000}")).shape("My Head/mouth")
    assert [point[:2] for point in mouth.at(1001)] == [(20, 200), (60, 200), (30, 170)]


def test_a_feather_that_an_artist_switched_off_stays_so_where_its_shape_is_edited(tmp_path: Path) -> None:
    off = "fo 0 fx x40800000 fy x40800000}"
    meant = read(SCRIPT.replace("osw x41200000}", f"osw x41200000 {off}"))
    mouth = meant.shape("My Head/mouth")
    assert mouth.feather_px == 0
    text, _, _ = written(tmp_path, replace(meant, shapes=(meant.shapes[0], moved(mouth, 7.0))))
    assert text.count(off) == 1


def test_shapes_are_added_renamed_hidden_ordered_and_taken_away(tmp_path: Path) -> None:
    meant = read()
    eye, mouth = meant.shapes
    new = RotoShape("brow", True, "matte", {1001: Key((ControlPoint(5, 5), ControlPoint(25, 5), ControlPoint(15, 30)))})
    _, found, _ = written(tmp_path, replace(meant, shapes=(new, mouth, replace(eye, name="My Head/left_eye"))))
    assert [shape.name for shape in found.shapes] == ["brow", "My Head/mouth", "My Head/left_eye"]
    assert found.shape("My Head/left_eye").keys == eye.keys
    text, found, _ = written(tmp_path, replace(meant, shapes=(replace(mouth, visible={1003: False}),)))
    assert [shape.name for shape in found.shapes] == ["My Head/mouth"]
    assert "cubiccurve Brush1" in text
    assert [found.shapes[0].is_visible(frame) for frame in (1002, 1003, 1004)] == [True, False, True]


def test_an_edit_under_a_moving_layer_keeps_its_place(tmp_path: Path) -> None:
    turning = (
        "{t x42c80000 x42480000 0 0 0 0 0 0 {{x447a4000 0 0 1 x41700000 1} {x447c4000 x41f00000 x41700000 1 0 1}}}"
    )
    meant = read(SCRIPT.replace("{t x42c80000 x42480000 0 x41200000 0 0 0 0 x41f00000 x40000000 1}", turning))
    eye = moved(meant.shape("My Head/eye"), 3.0)
    edited = eye.with_keys({frame: eye.keys[frame] for frame in (1001, 1009)})
    _, found, losses = written(tmp_path, replace(meant, shapes=(edited, meant.shapes[1])))
    assert not any("a key at every frame" in line for line in losses)
    assert found.shape("My Head/eye").frames == (1001, 1009)
    assert nuke.curve_difference(replace(meant, shapes=(edited, meant.shapes[1])), found) <= 0.02


def test_a_moved_group_moves_its_layer_and_keeps_its_shapes(tmp_path: Path) -> None:
    """The layer gets one more key; the curves of its shapes stay those of the script."""
    turning = (
        "{t x42c80000 x42480000 0 0 0 0 0 0 {{x447a4000 0 0 1 x41700000 1} {x447c4000 x41f00000 x41700000 1 0 1}}}"
    )
    script = SCRIPT.replace("{t x42c80000 x42480000 0 x41200000 0 0 0 0 x41f00000 x40000000 1}", turning)
    meant = read(script)
    group = meant.shape("My Head/eye").layer
    assert group is not None
    there = edit_layers.set_pose(meant, group.name, [1005], group.pose_at(1005)._replace(x=12.0))
    text, found, losses = written(tmp_path, there)
    assert not any("a key at every frame" in line for line in losses)
    assert nuke.curve_difference(there, found) <= 0.02
    assert found.shape("My Head/eye").frames == meant.shape("My Head/eye").frames
    moved_layer = found.shape("My Head/eye").layer
    assert moved_layer is not None
    assert moved_layer.pose_at(1005).x == pytest.approx(12.0)
    eye = script[script.index("{curvegroup eye") : script.index("{curvegroup mouth")]
    assert "".join(eye.split()) in "".join(text.split())
    edited = replace(there, shapes=tuple(moved(s, 3.0) if s.name == "My Head/eye" else s for s in there.shapes))
    _, found, losses = written(tmp_path, edited)  # a curve within the group as well
    assert not any("a key at every frame" in line for line in losses)
    assert found.shape("My Head/eye").frames == meant.shape("My Head/eye").frames
    assert nuke.curve_difference(edited, found) <= 0.02
    out = edit_layers.put_into(there, ["My Head/eye"], None)
    _, found, _ = written(tmp_path, out)  # and one that leaves it stays where it is seen
    assert nuke.curve_difference(out, found) <= 0.02


@pytest.mark.parametrize(
    "harm",
    [
        {"body": "\n onCreate {boom}\n curves {}\n"},
        {"body": "\n label {[exec rm]}\n curves {}\n"},
        {"body": "} Boom {"},
        {"body": " addUserKnob {52 go T boom}\n curves {}"},
        {"body": ' addUserKnob {"22" go T "boom"}\n curves {}'},
        {"body": " addUserKnob {59 go T boom}\n curves {}"},
        {"body": " # {\n knobChanged boom\n # }\n curves {}"},
        {"body": " label x\r knobChanged boom\n curves {}"},
        {"body": ' label "\\x5bboom\\x5d"\n curves {}'},
        {"body": ' label "\\133boom\\135"\n curves {}'},
        {"body": " label oom\ud800\n curves {}"},
        {"groups": ["a}\nBoom {"]},
        {"format": "1 [boom]"},
        {"kind": "NoOp"},
        {"body": 7},
    ],
)
def test_code_in_a_document_never_reaches_a_script(tmp_path: Path, harm: dict[str, Any]) -> None:
    meant = read()
    row = {**meant.metadata["nuke"]["nodes"][0], **harm}
    harmed = replace(meant, metadata={"nuke": {"nodes": [row]}})
    text, found, losses = written(tmp_path, harmed)
    assert "oom" not in text
    assert "rm]" not in text
    assert any("are not written back: metadata: a node of nuke" in line for line in losses)
    assert nuke.curve_difference(meant, found, nuke.script_names(harmed)) <= 0.02


@pytest.mark.parametrize("body", ["x", " name Z\n", " curves {}\n"])
def test_a_kept_node_without_curves_stops_no_export(tmp_path: Path, body: str) -> None:
    meant = read()
    rows = [*meant.metadata["nuke"]["nodes"], {"kind": "Roto", "groups": [], "body": body}]
    more = replace(meant, metadata={"nuke": {"nodes": rows}})
    _, found, _ = written(tmp_path, more)
    assert nuke.curve_difference(meant, found, nuke.script_names(more)) <= 0.02


def test_a_node_whose_curves_may_run_code_is_not_kept(tmp_path: Path) -> None:
    assert "cubiccurve Brush1" in SCRIPT
    meant = read(SCRIPT.replace("cubiccurve Brush1", 'cubiccurve "Brush [boom]"'))
    text, found, _ = written(tmp_path, meant)
    assert "boom" not in text
    assert nuke.curve_difference(meant, found, nuke.script_names(meant)) <= 0.02


def test_metadata_is_bounded_and_checked() -> None:
    meant = replace(read(), metadata={})
    text = document.dumps(replace(meant, metadata={"other": {"a": [1, None, "b"]}}))
    assert document.loads(text).metadata == {"other": {"a": [1, None, "b"]}}
    deep: Any = 1
    for _ in range(limits.DEEPEST_METADATA):
        deep = [deep]
    for metadata, line in (
        ({"other": deep}, "nested deeper"),
        ({" ": 1}, "names of formats"),
        ({"other": "x" * limits.MOST_METADATA}, "of metadata"),
    ):
        with pytest.raises(DocumentError, match=line):
            document.dumps(replace(meant, metadata=metadata))
    with pytest.raises(DocumentError, match="names of formats"):
        document.loads(text.replace('{"other": {"a": [1, null, "b"]}}', "7"))
    with pytest.raises(DocumentError, match="not known in version 1"):
        document.loads(text.replace('"version": 2', '"version": 1'))


def test_more_than_a_document_keeps_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nuke_metadata, "_MOST_KEPT", 100)
    reading = nuke_reader.read_text(SCRIPT)
    assert not reading.document.metadata
    assert any("strokes will not be written back" in line for line in reading.losses)


def test_other_formats_say_once_what_stays_behind(tmp_path: Path) -> None:
    _, lost = formats.write(tmp_path / "a.svg", read())
    assert sum("data that only Nuke uses" in line for line in lost) == 1
    shifted = formats.convert(write_script(tmp_path), tmp_path / "b.nk", offset=-1000)
    assert any("--offset" in line for line in shifted.losses)
    assert nuke.read(tmp_path / "b.nk").first_frame == 1


def write_script(tmp_path: Path) -> Path:
    (tmp_path / "s.nk").write_text(SCRIPT, encoding="utf-8")
    return tmp_path / "s.nk"


@pytest.mark.shared
@pytest.mark.skipif(not SCRIPTS, reason="no real scripts here")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_real_scripts_go_there_and_back(path: Path, tmp_path: Path) -> None:
    meant = nuke.read(path)
    proof = nuke.write_report(tmp_path / "a.nk", document.loads(document.dumps(meant)))
    back = nuke.read(tmp_path / "a.nk")
    assert (proof.max_error_px, back) == (0.0, meant)
    before, after = (
        {
            node.full_name: {knob: words for knob, words in node.knobs.items() if knob != "format"}
            for node in nuke_script.nodes(nuke.nuke_text_of(each))
            if node.kind in nuke_reader.NODE_KINDS and node.text("curves").strip()
        }
        for each in (path, tmp_path / "a.nk")
    )
    assert after == before
