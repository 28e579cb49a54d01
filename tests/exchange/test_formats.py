"""Conversion by suffix: every pair of formats, offsets, sizes, and what is said about losses."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document, formats, nuke, round_trip
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape


def sample() -> RotoDocument:
    lid = (ControlPoint(1, 2, -1, 0, 1, 0.5), ControlPoint(9, 2, 0, -1, 0, 1), ControlPoint(5, 8.25, 1, 0, -1, 0))
    keys = {5: Key(lid), 6: Key(tuple(p._replace(x=p.x + 4) for p in lid)), 7: Key(lid)}
    return RotoDocument(100, 80, 5, 7, shapes=(RotoShape("eye", True, "matte", keys, feather_px=2.0),))


@pytest.mark.parametrize(
    ("a", "b"), list(itertools.permutations([".roto.json", ".nk", ".svg", ".setting", ".jsx", ".py"], 2))
)
def test_every_pair_carries_the_curves(tmp_path: Path, a: str, b: str) -> None:
    error, _ = formats.write(tmp_path / f"one{a}", sample())
    assert error <= 1e-6
    done = formats.convert(tmp_path / f"one{a}", tmp_path / f"two{b}", offset=1000)
    assert done.max_error_px <= 1e-6
    assert done.n_shapes == 1
    found, _ = formats.read(tmp_path / f"two{b}")
    shape = found.shapes[0]
    assert (found.width, found.height, shape.name, shape.feather_px) == (100, 80, "eye", 2.0)
    for frame in (1005, 1006, 1007):
        for p, q in zip(shape.at(frame), sample().shapes[0].at(frame - 1000), strict=True):
            assert p == pytest.approx(q, abs=1e-5)


@pytest.mark.parametrize("target", ["a.nk", "./b/../a.nk", "link.nk", "hard.nk"])
def test_a_source_is_not_replaced_by_its_shapes_alone(tmp_path: Path, target: str) -> None:
    source = tmp_path / "a.nk"
    formats.write(source, sample())
    script = "Blur {\n size 3\n name Blur1\n}\n" + source.read_text()
    source.write_text(script)
    (tmp_path / "b").mkdir()
    (tmp_path / "link.nk").symlink_to(source)
    (tmp_path / "hard.nk").hardlink_to(source)
    with pytest.raises(UsageError, match=r"\.nk: is also the source; choose another name"):
        formats.convert(source, tmp_path / target)
    assert source.read_text() == script


def test_files_of_frames_that_are_read_by_a_pattern_are_not_replaced_either(tmp_path: Path) -> None:
    formats.write(tmp_path / "s.labelme.json", sample())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=r"s\.0006\.labelme\.json: is also the source"):
        formats.convert(tmp_path / "s.####.labelme.json", tmp_path / "s.labelme.json", offset=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_frames_of_an_earlier_export_that_stay_are_told(tmp_path: Path) -> None:
    document.write(tmp_path / "a.roto.json", sample())
    n_frames = sample().last_frame - sample().first_frame + 1

    def said(offset: int) -> list[str]:
        done = formats.convert(tmp_path / "a.roto.json", tmp_path / "s.labelme.json", offset=offset)
        return [line for line in done.losses if "stay beside" in line]

    assert said(0) == said(0) == []
    first = f"s.{sample().first_frame:04d}.labelme.json"
    assert said(n_frames - 1) == [
        f"{n_frames - 1} files of other frames stay beside it, such as {first}: s.####.labelme.json names them, too"
    ]


def test_losses_of_both_sides_are_listed(tmp_path: Path) -> None:
    document.write(tmp_path / "a.roto.json", sample())
    done = formats.convert(tmp_path / "a.roto.json", tmp_path / "a.svg")
    assert any("keys and holds" in line for line in done.losses)
    assert formats.convert(tmp_path / "a.roto.json", tmp_path / "b.roto.json").losses == ()


def test_wrong_use_is_reported(tmp_path: Path) -> None:
    document.write(tmp_path / "a.roto.json", sample())
    with pytest.raises(UsageError, match=r"wanted one of \.roto\.json, \.nk"):
        formats.convert(tmp_path / "a.roto.json", tmp_path / "a.fbx")
    with pytest.raises(UsageError, match="read only"):
        formats.convert(tmp_path / "a.roto.json", tmp_path / "a.gizmo")
    with pytest.raises(UsageError, match="together"):
        formats.convert(tmp_path / "a.roto.json", tmp_path / "a.nk", width=100)
    with pytest.raises(DocumentError, match="given 10 x 20"):
        formats.read(tmp_path / "a.roto.json", width=10, height=20)
    with pytest.raises(DocumentError, match=r"no\.nk"):
        formats.convert(tmp_path / "no.nk", tmp_path / "a.roto.json")
    assert not (tmp_path / "a.nk").exists()


def test_these_rooms_load_without_anything_installed() -> None:
    """Nuke's own Python has no numpy: the document, its edits and its text forms must not import it."""
    code = (
        "import sys\n"
        "class Guard:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'numpy', 'torch', 'cv2', 'onnxruntime', 'PySide6', 'shapely', 'yaml'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Guard())\n"
        "import rotopaint_ai.exchange.formats, rotopaint_ai.shapes.edit\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_gizmos_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.gizmo").write_text(nuke.dumps(sample()))
    found, _ = formats.read(tmp_path / "a.gizmo")
    assert found.shapes[0].frames == (5, 6, 7)


def test_an_export_is_read_back_and_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, found = round_trip.compare, []

    def counting(*documents: RotoDocument, **facts: Any) -> round_trip.Proof:
        found.append(plain(*documents, **facts))
        return found[-1]

    monkeypatch.setattr(round_trip, "compare", counting)
    proof, _ = formats.write_with_proof(tmp_path / "a.fxs", sample())
    assert found == [proof]
    assert formats.proof_of(tmp_path / "a.fxs", sample()) == proof
    assert proof.n_shapes == 1
