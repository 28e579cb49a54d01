"""Files as the first revision of each version wrote them, word for word: they stay readable."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from rotopaint_ai.errors import PackError
from rotopaint_ai.exchange import document
from rotopaint_ai.inference.pack import SEAM_FEATURES, find_pack, load_pack
from rotopaint_ai.shapes.roto import ControlPoint, Landmark, StrokeWidth

KEPT = Path(__file__).resolve().parents[1] / "kept"


def test_a_document_of_version_1_is_read() -> None:
    found = document.read(KEPT / "version-1.roto.json")
    assert (found.width, found.height, found.pixel_aspect, found.fps) == (192, 108, 2.0, 23.976)
    assert (found.first_frame, found.last_frame) == (1001, 1006)
    assert found.landmarks.keys == {1001: (Landmark(12.0, 24.0, 0.5), None)}
    seam, eye = found.shapes
    assert (seam.name, seam.closed, seam.role, seam.width_px, seam.feather_px) == ("nose_seam", False, "seam", 5.0, 1.5)
    assert (tuple(seam.taper), dict(seam.visible), seam.subtract) == ((0.1, 0.2), {1002: False}, False)
    assert [(f, key.source, key.interpolation) for f, key in seam.keys.items()] == [
        (1001, "model", "linear"),
        (1003, "human", "hold"),
        (1006, "propagated", "linear"),
    ]
    assert seam.at(1002)[0] == ControlPoint(14.5, 20.0, 0.0, 0.0, 3.0, -1.5)  # half-way, by hand
    assert (eye.closed, eye.role, eye.at(1006)[1]) == (True, "matte", ControlPoint(80.0, 50.0, 0.0, -4.0, 0.0, 4.0))


def test_a_document_of_version_2_is_read() -> None:
    found = document.read(KEPT / "version-2.roto.json")
    assert found.metadata == {"studio": {"shot": "sh010"}}
    eye, seam = found.shapes
    assert (eye.subtract, [key.interpolation for key in eye.keys.values()]) == (True, ["ease", "smooth", "linear"])
    assert [row[:2] for row in eye.feather_at(1001)] == [(2.0, 1.0)] * 3
    assert eye.at(1002)[0].x == pytest.approx(60.0 + 9.0 * (3 / 9 - 2 / 27))  # 3 u^2 - 2 u^3, by hand
    assert seam.widths_at(1001) == (StrokeWidth(2.0, 3.0, 1.0),) * 2


def test_what_is_read_is_written_in_the_version_it_was_of() -> None:
    for name, version in (("version-1", 1), ("version-2", 2)):
        text = document.dumps(document.read(KEPT / f"{name}.roto.json"))
        assert json.loads(text)["version"] == version
        assert text == (KEPT / f"{name}.roto.json").read_text(encoding="utf-8")


def _pack_of_card(folder: Path, **other: object) -> Path:
    """A pack with the first card ever shipped, and today's models."""
    card = json.loads((KEPT / "pack-version-1.card.json").read_text(encoding="utf-8"))
    folder.mkdir()
    for name in (*card["files"], SEAM_FEATURES):  # today's seam network reads the last one
        shutil.copyfile(find_pack("puppet") / name, folder / name)
        card["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "card.json").write_text(json.dumps(card | other), encoding="utf-8")
    return folder


def test_a_pack_of_version_1_is_read(tmp_path: Path) -> None:
    pack = load_pack(_pack_of_card(tmp_path / "old"))
    assert pack.sheet.seam_names
    assert not pack.card.get("reads_mirrored")  # came later: absent, it is off


def test_a_pack_of_a_later_version_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="version 99; wanted format 'rotopaint-pack' version 1"):
        load_pack(_pack_of_card(tmp_path / "new", version=99))
