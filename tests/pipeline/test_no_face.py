"""A box on something that is no face: nothing is painted, the exit code says so, and --force paints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.inference.pack import write_card
from rotopaint_ai.pipeline.plan import INSTABILITY, INSTABILITY_PER_ERROR, instability_limit


@pytest.fixture
def judging_pack(pack: Path, tmp_path: Path) -> Path:
    """The puppet's pack with a card that states a very small validation error."""
    folder = tmp_path / "pack"
    shutil.copytree(pack, folder)
    card = json.loads((folder / "card.json").read_text())
    kept = {name: card[name] for name in ("name", "input_size", "crop_margin")}
    write_card(folder, {**kept, "metrics": {"landmarks_percent": {"median": 0.01}}})
    return folder


def test_a_box_on_no_face_is_not_painted_without_force(
    puppet: ModuleType,
    judging_pack: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The synthetic model's landmarks move a little where a crop cuts its discs; a limit below that doubts every
    frame."""
    monkeypatch.setattr("rotopaint_ai.pipeline.plan.INSTABILITY", 1e-7)
    monkeypatch.setattr("rotopaint_ai.pipeline.plan.INSTABILITY_PER_ERROR", 0.0)
    plates = str(puppet.make_plates(tmp_path / "plates", range(1001, 1004)))
    out = tmp_path / "out"
    words = ["run", plates, "--crop", puppet.crop_text(), "--out", str(out), "--model", str(judging_pack)]
    assert main([*words, "--export", ""]) == 3
    said = capsys.readouterr()
    assert "face not found at 1001-1003 (the model doubts that this is a face" in said.err
    assert "or --force where there is a face, and look its landmarks over" in said.err
    assert "0 frames done, 3 frames without a face" in said.out
    first = tmp_path / "plates/plate.1001.exr"
    assert (out / "clean/plate.1001.exr").read_bytes() == first.read_bytes()
    assert main([*words, "--export", "", "--force"]) == 0
    assert (out / "clean/plate.1001.exr").read_bytes() != first.read_bytes()


def test_a_pack_that_was_hardly_trained_says_so_and_goes_on(
    puppet: ModuleType, judging_pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a pack's instability says nothing, so no face is refused because of it."""
    card = json.loads((judging_pack / "card.json").read_text())
    kept = {name: card[name] for name in ("name", "input_size", "crop_margin")}
    write_card(judging_pack, {**kept, "metrics": {"landmarks_percent": {"median": 9.3, "mean": 11.6}}})
    plates = str(puppet.make_plates(tmp_path / "plates", range(1001, 1003)))
    words = ["run", plates, "--crop", puppet.crop_text(), "--out", str(tmp_path / "out"), "--model", str(judging_pack)]
    assert main([*words, "--export", ""]) == 0
    said = capsys.readouterr().err
    assert "warning: pack puppet: its landmarks are 11.6 % of the face off on held-out frames, too far to tell" in said


def test_packs_that_err_more_may_be_less_stable_and_unmeasured_ones_are_believed() -> None:
    def card(median: object) -> dict[str, object]:
        return {"crop_margin": 1.25, "metrics": {"landmarks_percent": {"median": median}}}

    assert instability_limit(card(0.5)) == INSTABILITY
    assert instability_limit(card(2.5)) == pytest.approx(INSTABILITY_PER_ERROR * 0.02)
    assert instability_limit({}) == instability_limit(card(None)) == float("inf")
