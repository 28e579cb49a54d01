"""The simulated artist: keys, gestures and harm in a shot with known errors."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape

FRAMES = range(1001, 1007)
WRONG = {1002: 3.0, 1005: 4.0}  # pixels
NAMES = ("a", "b", "c", "d")


def shot(off: dict[int, float]) -> RotoDocument:
    """A level seam of 60 px in a face where only one landmark moves, so that every frame is another pose."""
    corners = [(0, 0), (100, 0), (100, 100)]
    marks = {
        f: (*(Landmark(x, y, 1.0) for x, y in corners), Landmark(0.0, 100.0 + 3 * k, 1.0)) for k, f in enumerate(FRAMES)
    }
    keys = {
        f: Key(
            (ControlPoint(20, 50 + off.get(f, 0.0), 0, 0, 20, 0), ControlPoint(80, 50 + off.get(f, 0.0), -20, 0, 0, 0))
        )
        for f in FRAMES
    }
    return RotoDocument(
        width=128,
        height=128,
        first_frame=FRAMES[0],
        last_frame=FRAMES[-1],
        landmarks=LandmarkKeys(NAMES, marks, {}),
        shapes=(RotoShape("seam", False, "seam", keys),),
    )


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend("benchmarks")  # it is a script and imports its neighbour
    return importlib.import_module("benchmarks.keys")


def test_an_artist_keys_what_is_wrong_and_looks_where_the_tool_says(
    keys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two frames are wrong; the run suspects one of them, and most of all a right one: three looks, one by luck."""
    (tmp_path / "run").mkdir()
    documents.write(tmp_path / "run" / "shapes.roto.json", shot(WRONG))
    documents.write(tmp_path / "truth.roto.json", shot({}))
    doubt = {f: [5.0 - k] for k, f in enumerate([1004, 1005, 1002, 1001, 1003, 1006])}
    errors = {"shapes": ["seam"], "by_frame": {str(f): row for f, row in doubt.items()}}
    (tmp_path / "run" / "run.json").write_text(json.dumps({"errors": errors}))
    words = ["keys.py", f"{tmp_path / 'run'}={tmp_path / 'truth.roto.json'}", "--hand", "0", "--json"]
    monkeypatch.setattr(sys, "argv", [*words, str(tmp_path / "out.json"), "--ways", "models alone,refit,linear"])
    assert keys.main() == 0
    (found,) = json.loads((tmp_path / "out.json").read_text()).values()
    alone = found["models alone"]
    assert (alone["keys"], sorted(alone["keyed"]), alone["harm"]) == (2, [1002, 1005], 0.0)
    assert alone["keys_per_100_frames"] == pytest.approx(100 * 2 / 6, abs=0.01)
    assert alone["gestures"] == 2 * (1 + 2)  # both points of each, and the tool asked
    assert alone["seconds"] - alone["tool_seconds"] == pytest.approx(2.0 * 6 + 2.0 * 3, abs=0.11)  # and three looks
    assert alone["worst_px"] == pytest.approx([4.0, 4.0, 3.0, 0.0], abs=0.05)
    assert found["refit"]["keys"] <= 2
    assert found["linear"]["keys"] == 1  # the truth stands still
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows if row.startswith(("models", "linear"))][:2] == ["models", "linear"]


def test_what_is_hidden_is_not_measured(keys: Any) -> None:
    line = np.linspace(0, 100, keys.N_SAMPLES) + 0j
    low = (ControlPoint(0, 2, 0, 0, 30, 0), ControlPoint(100, 2, -30, 0, 0, 0))
    assert keys.distance(low, line, line.real > -1) == pytest.approx(2.0, abs=0.02)
    assert keys.distance(low, line, line.real > 200) == 0.0
