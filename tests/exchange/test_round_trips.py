"""Whatever a shot holds: every format gives it back, or says what it lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import (
    aftereffects,
    blender,
    coco,
    cryptomatte,
    formats,
    fusion,
    json_files,
    labelme,
    lottie,
    lua,
    silhouette,
    ssf,
)
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.shapes.roto import RotoDocument

from . import shots

FORMS = [*shots.TEXT_FORMS, shots.form("labelme")]
PHASES = (Phase.explicit, Phase.generate)  # drawing shapes is too slow for a search for smaller ones
MODULES = {
    "ssf": ssf,
    "setting": fusion,
    "jsx": aftereffects,
    "py": blender,
    "fxs": silhouette,
    "coco": coco,
    "lottie": lottie,
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_what_is_written_comes_back_or_is_reported(form: FormatSpec, tmp_path: Path) -> None:
    drawn = form.name in ("COCO", "labelme")  # every frame of theirs is a drawing

    @settings(max_examples=2 if drawn else 5, phases=PHASES)
    @given(meant=shots.documents())
    def check(meant: RotoDocument) -> None:
        _check_round_trip(form, tmp_path, meant)

    check()


def _check_round_trip(form: FormatSpec, tmp_path: Path, meant: RotoDocument) -> None:
    path = tmp_path / f"shot{form.suffixes[0]}"
    distance, reported = formats.write(path, meant)  # raises where anything differs that is not told
    assert distance <= form.limit_px
    assert all("\n" not in line and len(line) < 200 for line in reported)
    assert formats.proof_of(path, meant).faults == ()


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
@settings(max_examples=4, phases=PHASES)
@given(meant=shots.documents())
def test_written_again_it_is_the_same_file(module: object, meant: RotoDocument) -> None:
    """A document that was read is written with the same keys and points."""
    size = {"width": meant.width, "height": meant.height}
    extra = {"pixel_aspect": meant.pixel_aspect} if module is silhouette else {}
    once = module.loads(module.dumps(meant), **size, **extra).document  # type: ignore[attr-defined]
    twice = module.loads(module.dumps(once), **size, **extra).document  # type: ignore[attr-defined]
    assert [(s.name, s.closed, s.n_points) for s in twice.shapes] == [
        (s.name, s.closed, s.n_points) for s in once.shapes
    ]
    for a, b in zip(once.shapes, twice.shapes, strict=True):
        for frame in a.frames:
            shift = once.first_frame - twice.first_frame
            for p, q in zip(a.at(frame), b.at(frame - shift), strict=True):
                assert p == pytest.approx(q, abs=1e-4)


# --- damaged files ----------------------------------------------------------------------------------------------------

READERS = {
    **{name: module.loads for name, module in MODULES.items()},
    "labelme": labelme.loads,
    "json": json_files.loads,
}
SIGNS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ",",
    ":",
    "=",
    "nan",
    "1e999",
    "-",
    "\\",
    "<",
    "/>",
    "null",
    "999999999999",
    "\x00",
    "é",
    "-5",
]


def _damaged(text: str, chance: random.Random) -> str:
    """The text with a few deletions, repetitions, swaps and odd words."""
    for _ in range(chance.randint(1, 4)):
        a, b = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        b = min(b, a + chance.choice((1, 5, 60, 4000)))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:a] + text[b:]
        elif kind == 1:
            text = text[:b] + text[a:b] + text[b:]
        elif kind == 2:
            text = text[:a] + chance.choice(SIGNS) + text[a:]
        else:
            text = text[:a] + chance.choice(SIGNS) + text[b:]
        text = text or " "
    return text


def _complaint(read: Callable[[], object]) -> str | None:
    """A reader's refusal of a text; None where it reads it. Errors other than DocumentError are raised."""
    try:
        read()
    except DocumentError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_reported_in_one_line(name: str) -> None:
    """No traceback, no hang, no memory beyond the text's own: a document or one DocumentError."""
    chance = random.Random(f"damage {name}")
    document = shots.shot(shots.corners(), shots.seam(), width=200, height=100)
    if name in MODULES:
        whole = MODULES[name].dumps(document)
    elif name == "labelme":
        whole = labelme.dumps_frame(labelme.as_written(document), 1001)
    else:
        whole = coco.dumps(document)
    for _ in range(120):
        said = _complaint(lambda: READERS[name](_damaged(whole, chance), width=200, height=100, where="damaged"))
        assert said is None or (said.startswith("damaged") and len(said) < 300)


@settings(max_examples=60)
@given(text=st.text(alphabet='{}[]()=,;"\\-. \n0123456789eEabXYtrue', max_size=200))
def test_any_text_is_a_table_or_a_line(text: str) -> None:
    said = _complaint(lambda: lua.loads(text, where="any"))
    assert said is None or said.startswith("any: line")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        lua.loads("{" * 5000 + "}" * 5000)
    for loads in (coco.loads, labelme.loads, blender.loads, aftereffects.loads):
        with pytest.raises(DocumentError, match="not JSON"):
            loads("[" * 200_000 + "]" * 200_000)
    with pytest.raises(DocumentError):
        silhouette.loads("<a>" * 100_000 + "</a>" * 100_000)


def test_a_short_file_cannot_ask_for_much_memory() -> None:
    """Numbers that promise millions of points, keys or frames are checked against what is there."""
    head = "shake_shape_data 4.0\nnum_shapes 1\nshape_name a\nnum_vertices 99999999\nnum_key_times 1\nkey_time 0\n"
    with pytest.raises(DocumentError, match="12 for each vertex"):
        ssf.loads(head + "vertex_data 1 2 3\n", width=10, height=10)
    text = ssf.dumps(shots.shot(shots.corners())).replace("key_time 9", "key_time 900000000")
    with pytest.raises(DocumentError, match="span more than"):
        ssf.loads(text, width=960, height=640)
    pictures = [{"id": i, "width": 10, "height": 10, "file_name": f"{i}.png"} for i in range(5001)]
    with pytest.raises(DocumentError, match="at most 5,000"):
        coco.loads(str({"images": pictures, "annotations": []}).replace("'", '"'))


def test_an_xml_bomb_is_not_opened() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]><Silhouette>&c;</Silhouette>'
    with pytest.raises(DocumentError, match="document type"):
        silhouette.loads(bomb)


def test_names_that_share_a_hash_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cryptomatte, "identity", lambda name: 7)
    with pytest.raises(DocumentError, match="have the same hash"):
        cryptomatte.write(tmp_path / "a.crypto.exr", shots.shot(shots.corners(), shots.seam()))
