"""The table of `docs/exchange.md` is what the round trips find, and nothing is lost in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import format_matrix
from benchmarks.format_matrix import Row
from rotopaint_ai.errors import DocumentError

RENEW = "run: python -m benchmarks.format_matrix docs/exchange.md"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "exchange.md"


@pytest.fixture(scope="module")
def found() -> dict[str, dict[Row, format_matrix.Survival]]:
    """The survey, computed once."""
    return format_matrix.measure_survival()


def test_nothing_is_lost_in_silence(found: dict[str, dict[Row, format_matrix.Survival]]) -> None:
    silent = [(name, feature) for name, row in found.items() for feature, each in row.items() if each.cell == "lost"]
    assert silent == []


def test_the_document_keeps_everything(found: dict[str, dict[Row, format_matrix.Survival]]) -> None:
    assert {each.cell for each in found["RotoPaint"].values()} == {"kept"}


@pytest.mark.parametrize(
    ("name", "feature", "cell"),
    [
        ("SSF", "feather", "kept"),
        ("SSF", "size", "reported"),
        ("Fusion", "width", "kept"),
        ("AfterEffects", "holds", "kept"),
        ("Blender", "open", "changed"),
        ("Silhouette", "feather", "reported"),
        ("COCO", "tangents", "changed"),
        ("COCO", "keys", "reported"),
        ("labelme", "open", "kept"),
        ("Cryptomatte", "feather", "kept"),
        ("Nuke", "eases", "kept"),
        ("Nuke", "feather line", "kept"),
        ("Nuke", "metadata", "kept"),
        ("Fusion", "feather line", "kept"),
        ("Blender", "feather line", "changed"),
        ("AfterEffects", "feather line", "changed"),
        ("Lottie", "eases", "changed"),
        ("Lottie", "holds", "kept"),
        ("SSF", "metadata", "reported"),
    ],
)
def test_known_cells(
    found: dict[str, dict[Row, format_matrix.Survival]], name: str, feature: Row, cell: format_matrix.Cell
) -> None:
    assert found[name][feature].cell == cell


def test_the_page_is_not_stale(found: dict[str, dict[Row, format_matrix.Survival]]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text.split(format_matrix.BEGIN, 1)[1].split(format_matrix.END, 1)[0].strip()
    assert shown == format_matrix.matrix_table(found).strip(), RENEW


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(DocumentError, match="no place for the table"):
        format_matrix.renew_table("# a page\n")
