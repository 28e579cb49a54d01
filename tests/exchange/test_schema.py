"""The published schema of `.roto.json` says what the reader says; the public module is enough to edit a document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from benchmarks import format_matrix
from rotopaint_ai import roto
from rotopaint_ai.exchange import document

from .test_document import FROM_THE_SPEC, _changed, test_what_is_wrong_is_named

WRONG = next(mark for mark in test_what_is_wrong_is_named.pytestmark if mark.name == "parametrize").args[1]
# What a schema has no words for: one field judged by another. The schema's description says these in prose.
BEYOND = {
    "comes before first_frame",
    "a shot of at most 100,000 frames",
    "frame 1009 has no key",
    "change in number (2 at frame 1001, 1 at frame 1002)",
    "1 landmarks; wanted 2",
    "not a landmark of this document",
    r"the name '\ud800' holds half a character",
    r"the name 'b\udfff' holds half a character",
}


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(roto.schema())
    return Draft202012Validator(roto.schema())


def test_what_the_writer_writes_is_valid(validator: Draft202012Validator) -> None:
    texts = [FROM_THE_SPEC, *(document.dumps(make()) for make in format_matrix.SHOTS.values())]
    for text in texts:
        validator.validate(json.loads(text))


def test_what_the_reader_refuses_is_invalid(validator: Draft202012Validator) -> None:
    valid = {line for path, value, line in WRONG if validator.is_valid(json.loads(_changed(path, value)))}
    assert valid == BEYOND


def test_a_document_is_loaded_edited_drawn_and_saved(tmp_path: Path) -> None:
    (tmp_path / "a.roto.json").write_text(FROM_THE_SPEC.replace("[1, 2, 3, 4, 5, 6]", LINE).replace(
        "[1.5, 2, 3, 4, 5, 6]", LINE), encoding="utf-8")  # fmt: skip
    found = roto.load(tmp_path / "a.roto.json")
    seam = replace(found.shape("nose_seam"), width_px=4.0, feather_px=0.0)
    alpha = roto.rasterise(seam, 1001, found)
    assert alpha.shape == (1080, 1920)
    assert float(alpha.sum()) == pytest.approx(100 * 4 + 4 * 3.14159, rel=0.02)  # a stroke with round ends
    lost = roto.save(tmp_path / "b.nk", roto.with_shape(found, seam))
    assert any("landmarks" in line for line in lost)
    assert roto.load(tmp_path / "b.nk").shape("nose_seam").width_px == 4.0
    assert [s.name for s in roto.with_shape(found, replace(seam, name="new")).shapes] == ["new", "nose_seam"]


LINE = "[100, 50, 0, 0, 33, 0], [200, 50, -33, 0, 0, 0]"


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).resolve().parents[2] / "docs/exchange.md"
    example = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    text = FROM_THE_SPEC.replace("[1, 2, 3, 4, 5, 6]", LINE).replace("[1.5, 2, 3, 4, 5, 6]", LINE)
    Path("shapes.roto.json").write_text(text, encoding="utf-8")
    made: dict[str, Any] = {}
    exec(example, made)
    assert roto.load("thick.nk").shape("nose_seam").width_px == 8.0
    assert made["alpha"].max() == 1.0


def test_metadata_is_as_the_schema_says(validator: Draft202012Validator) -> None:
    found = document.loads(FROM_THE_SPEC)
    kept = {"studio": {"shot": [1, None, {"a": "b"}]}}
    text = document.dumps(replace(found, metadata=kept, shapes=(replace(found.shapes[0], metadata=kept),)))
    validator.validate(json.loads(text))
    assert (document.loads(text).metadata, document.loads(text).shapes[0].metadata) == (kept, kept)
    assert not validator.is_valid({**json.loads(text), "metadata": 7})
