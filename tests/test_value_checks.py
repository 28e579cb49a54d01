"""Values of files checked into dataclasses, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from rotopaint_ai.errors import PackError
from rotopaint_ai.value_checks import check, check_format


@dataclass(frozen=True)
class Leaf:
    name: str
    size: float = 1.0
    count: int = 0
    ends: tuple[float, float] = (0.0, 0.0)
    side: Literal["left", "right"] = "left"


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Anything:
    notes: dict[str, object] = field(default_factory=dict)


def test_a_right_content_becomes_the_dataclass() -> None:
    content = {"leaves": [{"name": "a", "size": 2, "ends": [1, 2]}], "notes": {"x": 3}}
    assert check(content, Tree, error=PackError) == Tree((Leaf("a", 2.0, 0, (1.0, 2.0)),), {"x": 3})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "is a list of 0; wanted named fields"),
        ({"leaves": 3}, "leaves is 3; wanted a list"),
        ({"leaves": [{}]}, "leaves 1: name is missing; wanted this field"),
        ({"leaves": [{"name": False}]}, "leaves 1: name is False; wanted text, in quotes"),
        ({"leaves": [{"name": "a", "size": "2"}]}, "leaves 'a': size is '2'; wanted a number"),
        ({"leaves": [{"name": "a", "size": float("nan")}]}, "leaves 'a': size is nan; wanted a finite number"),
        ({"leaves": [{"name": "a", "count": True}]}, "leaves 'a': count is True; wanted a whole number"),
        ({"leaves": [{"name": "a", "ends": [1]}]}, "leaves 'a': ends is a list of 1; wanted a list of 2"),
        ({"leaves": [{"name": "a", "side": "up"}]}, "leaves 'a': side is 'up'; wanted one of left, right"),
        ({"leaves": [{"name": "a", "hue": 1}]}, "leaves 'a' has an unknown field 'hue'; wanted only count, ends,"),
        ({"leaves": [{"name": "a", "sise": 1}]}, "leaves 'a' has an unknown field 'sise'; did you mean 'size'?"),
        ({"leaves": [{"nam": "a"}]}, "leaves 1: name is missing; is 'nam' meant for it?"),
        ({"notes": {"x": "y"}}, "notes: x is 'y'"),
        ({"leaves": [{"name": "a", "side": "\ud800"}]}, r"the text '\ud800' holds a null or half a character"),
        ({"leaves": [{"name": "a\0"}]}, r"the text 'a\x00' holds a null or half a character; correct or rename it"),
        ({"notes": {"x": "y", "z": 1}}, "notes: x is 'y'"),
    ],
)
def test_a_wrong_content_is_refused_by_where_got_and_wanted(content: object, sentence: str) -> None:
    with pytest.raises(PackError) as caught:
        check(content, Tree, error=PackError)
    assert str(caught.value).startswith(sentence)


def test_a_content_that_holds_itself_is_refused() -> None:
    ring: dict[str, object] = {}
    ring["notes"] = ring
    with pytest.raises(PackError, match="contains itself, or is nested without end"):
        check(ring, Anything, error=PackError)


def test_other_fields_may_be_let_through() -> None:
    assert check({"more": 1}, Tree, error=PackError, others=True) == Tree()


def test_format_and_version_are_checked_first() -> None:
    assert check_format({"format": "f", "version": 1, "a": 2}, "f", 1, error=PackError) == {"a": 2}
    with pytest.raises(PackError, match=r"format 'f' version 2; wanted format 'f' version 1"):
        check_format({"format": "f", "version": 2}, "f", 1, error=PackError)
    with pytest.raises(PackError, match=r"is a list of 0; wanted named fields, among them format 'f'"):
        check_format([], "f", 1, error=PackError)
