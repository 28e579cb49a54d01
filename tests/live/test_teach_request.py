"""The live engine's answer to a request of Teach."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rotopaint_ai.live import engine as engines
from rotopaint_ai.live.engine import LiveEngine
from rotopaint_ai.pipeline.teach import TeachResult
from rotopaint_ai.project import Project, State
from rotopaint_ai.project.codecs import pack
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

KEY = Key((ControlPoint(1, 2), ControlPoint(30, 2)), "propagated")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shape = RotoShape("seam", False, "seam", {1001: Key(KEY.points), 1002: Key(KEY.points)})
    document = RotoDocument(64, 48, 1001, 1002, shapes=(shape,))
    Project.create(tmp_path / "a.rotopaint", State(document, predicted=document)).close()
    return tmp_path / "a.rotopaint"


def test_a_shot_is_read_once_and_taught_as_often_as_asked(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    reported: list[Any] = []

    def read_shot(*of: Any, progress: Any) -> str:
        read.append(of)
        progress(1, 2)
        return "reading"

    monkeypatch.setattr(engines, "read_shot", read_shot)
    taught = TeachResult({"seam": {1002: KEY}}, {"seam": {1002: 0.5}}, {"seam": (1002,)}, 1)
    monkeypatch.setattr(engines, "teach", lambda reading, *of: taught)
    engine = LiveEngine(tmp_path, reported.append)
    ask = {"id": 1, "ask": "teach", "project": str(project)}
    assert "no plate is open" in engine.answer(ask)["error"]
    engine._plate = SimpleNamespace(width=64, height=48, name="p")  # type: ignore[assignment]
    engine._models = SimpleNamespace()  # type: ignore[assignment]
    first, second = engine.answer(ask), engine.answer(ask)
    assert len(read) == 1
    assert reported == [{"id": 1, "ask": "teach", "done": 1, "total": 2}]
    assert second["doubtful"] == {"seam": [1002]}
    assert (first["moved"], first["errors"]) == (1, {"seam": {1002: 0.5}})
    ((name, frame, size),) = first["keys"]
    assert (name, frame) == ("seam", 1002)
    assert Path(first["block"]).read_bytes()[:size] == pack("key", KEY)
    engine._plate = SimpleNamespace(width=65, height=48, name="p")  # type: ignore[assignment]
    assert "open the plate that they were made on" in engine.answer(ask)["error"]


def test_corrections_that_reach_nothing_are_refused_and_new_keys_come_packed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    keys: dict[str, dict[int, Key]] = {}

    def spread_keys(*of: Any) -> dict[str, dict[int, Key]]:
        asked.append(of)
        return keys

    monkeypatch.setattr(engines, "spread_keys", spread_keys)
    engine, ask = LiveEngine(tmp_path), {"ask": "spread", "way": "shift", "project": str(project), "spread": None}
    assert "no shape has a human key" in engine.answer(ask)["error"]
    keys["seam"] = {1001: KEY, 1002: KEY}
    answer, size = engine.answer(ask), len(pack("key", KEY))
    assert answer["keys"] == [["seam", 1001, size], ["seam", 1002, size]]
    assert Path(answer["block"]).read_bytes() == 2 * pack("key", KEY)
    assert asked[0][0] == "shift"
    assert asked[0][1] == asked[0][2]  # nobody has changed what the models said
    assert asked[0][3:] == (None, {})
