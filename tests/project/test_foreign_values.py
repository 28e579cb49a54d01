"""Values, notes and steps of a project that are not what their place wants: refused in one line, whoever asks."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import DamagedProjectError
from rotopaint_ai.project import Project, State, schema
from tests.project.requeried import sample_state


def _project(path: Path) -> Path:
    state = sample_state()
    with closing(Project.create(path)) as project:
        project.append("all", State(), state)
        project.append("mark", state, replace(state, marks={5: "rejected"}))
        project.set_note("plate", {"source": "plate.####.exr", "width": 100, "height": 80})
    return path


def _change(path: Path, sql: str, *given: Any) -> None:
    """Run a statement on a closed project, which must change something; remove the sums of its tables."""
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(sql, given).rowcount > 0
        db.execute("DELETE FROM note WHERE name = 'sum'")


def _put(path: Path, kind: str, name: str, value: Any) -> None:
    """Replace a stored value by one of another kind, with a valid checksum."""
    data = schema.seal(json.dumps(value).encode())
    where = "SELECT value FROM item JOIN track ON track.id = item.track WHERE kind = ? AND name = ?"
    _change(path, f"UPDATE value SET data = ? WHERE id IN ({where})", data, kind, name)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("mark", "", "wonderful"),
        ("mark", "", 5),
        ("note", "", ["look"]),
        ("note", "", "\ud83e"),
        ("face", "", {"a": 1}),
        ("name", "seam", 7),
        ("visible", "pip/eye", "yes"),
        ("hand", "", [1]),
        ("layer", "head", ["first", None]),
        ("metadata", "", ["host"]),
        ("metadata", "", {"host": "\udfad"}),
        ("aside", "Bert", ["puppet", {"a": 1}]),
        ("aside", "Bert", [1, {}]),
        ("seam", "seam", {"method": 3}),
        ("spread", "", {"frame": "5", "first": 5, "last": 6, "shapes": []}),
        ("spread", "", {"frame": 5, "first": 5, "last": 6, "shapes": [None]}),
        ("stroke", "", {"points": []}),
    ],
)
def test_a_value_of_another_type_is_refused(tmp_path: Path, kind: str, name: str, value: Any) -> None:
    path = _project(tmp_path / "shot.rotopaint")
    _put(path, kind, name, value)
    with closing(Project.open(path, write=False)) as project, pytest.raises(DamagedProjectError, match="torn"):
        project.load()


@pytest.mark.parametrize(
    "fields",
    [
        {"width": "wide"},
        {"width": 10**9},
        {"fps": None},
        {"first_frame": 0.5},
        {"last_frame": 10**9},
        {"shapes": ["seam", "seam"]},
        {"shapes": [5]},
        {"landmarks": ["nose", "nose", "nose"]},
    ],
)
def test_a_document_that_no_file_of_shapes_could_hold_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    document = sample_state().document
    assert document is not None
    facts = {name: getattr(document, name) for name in ("width", "height", "first_frame", "last_frame", "fps")}
    facts |= {"pixel_aspect": 1.0, "landmarks": document.landmarks.names, "shapes": [s.name for s in document.shapes]}
    path = _project(tmp_path / "shot.rotopaint")
    _put(path, "head", "", {**facts, **fields})
    with closing(Project.open(path, write=False)) as project, pytest.raises(DamagedProjectError, match="torn"):
        project.load()


def test_a_value_shared_by_two_kinds_is_unpacked_for_each(tmp_path: Path) -> None:
    """A value used in two places was once unpacked only for the first of them."""
    path = _project(tmp_path / "shot.rotopaint")
    kind = "(SELECT id FROM track WHERE kind = ?)"
    _change(
        path,
        f"UPDATE item SET value = (SELECT value FROM item WHERE track = {kind}) WHERE track = {kind}",
        "crop",
        "mark",
    )
    with closing(Project.open(path, write=False)) as project, pytest.raises(DamagedProjectError, match="torn"):
        project.load()


@pytest.mark.parametrize("name", ["run", "plate", "painted", "view", "position"])
@pytest.mark.parametrize("value", [["a"], "a", 0.5])
def test_a_note_of_another_type_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    path = _project(tmp_path / "shot.rotopaint")
    _change(path, "INSERT OR REPLACE INTO note VALUES (?, ?)", name, json.dumps(value))
    with closing(Project.open(path, write=False)) as project, pytest.raises(DamagedProjectError, match="torn"):
        project.load() if name == "position" else project.note(name)


def test_a_plate_whose_width_is_a_word_is_refused(tmp_path: Path) -> None:
    path = _project(tmp_path / "shot.rotopaint")
    _change(path, "UPDATE note SET value = ? WHERE name = 'plate'", '{"width": "wide"}')
    with closing(Project.open(path, write=False)) as project, pytest.raises(DamagedProjectError, match="width"):
        project.note("plate")


@pytest.mark.parametrize(
    "what",
    [
        "before = 999",
        "frame = 'five'",
        "before = NULL, frame = 0, track = (SELECT id FROM track WHERE kind = 'shape')",
    ],
)
def test_a_step_whose_values_do_not_fit_is_refused(tmp_path: Path, what: str) -> None:
    path = _project(tmp_path / "shot.rotopaint")
    _change(path, f"UPDATE change SET {what} WHERE step = 2")
    with closing(Project.open(path, write=False)) as project:
        state = project.load().state
        with pytest.raises(DamagedProjectError, match="torn"):
            project.before(2, state)
