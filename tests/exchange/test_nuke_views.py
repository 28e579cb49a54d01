"""Forms of Foundry's description that no file at hand uses: curves by view, interpolation numbers in keys."""

from __future__ import annotations

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke_curves, nuke_reader, nuke_text

from .test_nuke import script


def moving(x: str, *, form: str = "p") -> str:
    """A triangle with the given curve for one corner's x."""
    return f"{{{form} {{0 0}} {{{x} 20}} {{0 0}} {{0 0}} {{9 9}} {{0 0}} {{0 0}} {{30 0}} {{0 0}}}}"


def read(x: str, *, form: str = "p") -> nuke_reader.NukeReading:
    reading = nuke_reader.read_text(script(moving(x, form=form)))
    ((_, tree),) = reading.trees
    assert nuke_curves.parse_curves(nuke_text.serialise(tree)) == tree
    return reading


def corner(reading: nuke_reader.NukeReading, frame: float) -> float:
    return reading.document.shapes[0].at(frame)[0].x


@pytest.mark.parametrize(
    ("x", "drawn", "reported"),
    [
        ("{left 7 right 9}", 7, "left, right; those of left"),
        ("{right 9 left 7}", 7, "right, left; those of left"),
        ("{{right 9} {left 7}}", 7, "right, left; those of left"),
        ("{- 5 left 7 right 9}", 5, "-, left, right; those of -"),
        ("{alpha 3 beta 4}", 3, "alpha, beta; those of alpha"),
        ("{left {{1 7 -} {5 7 -}} right {{1 9 -}}}", 7, "those of left"),
    ],
)
def test_the_first_view_is_read_and_the_others_are_reported(x: str, drawn: float, reported: str) -> None:
    reading = read(x)
    assert corner(reading, 1) == drawn
    assert [reported in line for line in reading.losses if "views" in line] == [True]
    assert nuke_text.serialise(reading.trees[0][1]).count(x) == 1


def test_views_of_curves_that_share_their_times() -> None:
    reading = read("{left {{7 -} {9 -}} right {{1 -} {2 -}}}", form="px {1 5}")
    assert [corner(reading, frame) for frame in (1, 5)] == [7, 9]
    assert any("those of left" in line for line in reading.losses)


def test_views_of_an_attribute() -> None:
    text = script(moving("7"), attrs="{a vis {left 0 right 1}}")
    reading = nuke_reader.read_text(text)
    assert reading.document.shapes[0].visible == {1: False}
    assert any("those of left" in line for line in reading.losses)


@pytest.mark.parametrize(
    ("left", "at_2", "at_4"),
    [
        ("{1 0 0 1 0 1 256}", 0, 0),  # step
        ("{1 0 256}", 0, 0),
        ("{1 0 0 1 0 1 257}", 10, 30),  # linear, whatever the slopes say
        ("{1 0 1}", 10, 30),
        ("{1 0 0 1 0 1 258}", 40 * 5 / 32, 40 * 27 / 32),  # flat at both ends: 3 u^2 - 2 u^3 at a quarter and three
    ],
)
def test_keys_that_state_their_interpolation(left: str, at_2: float, at_4: float) -> None:
    reading = read("{" + left + " {5 40 0 1 0 1}}")
    assert [corner(reading, frame) for frame in (1, 2, 4, 5)] == pytest.approx([0, at_2, at_4, 40], abs=0.1)
    assert any("interpolation by number" in line for line in reading.losses)


def test_a_linear_key_needs_no_others_between() -> None:
    assert read("{{1 0 0 1 0 1 257} {5 40 0 1 0 1 257}}").document.shapes[0].frames == (1, 5)
    assert read("{{0 0 1 0 1 257} {40 0 1 0 1 257}}", form="px {1 5}").document.shapes[0].frames == (1, 5)
    assert read("{{7 0 1 0 1 256}}", form="px 3").document.shapes[0].frames == (3,)


def test_cycles_are_reported() -> None:
    assert any("repeats outside" in line for line in read("{{1 0 0 1 0 1 513} {5 40 0 1 0 1 513}}").losses)


@pytest.mark.parametrize("key", ["{1 0 5}", "{1 0 0 1 0 1 259}", "{1 0 -1}", "{1 0 0 1 0 1 70000}", "{1 0 1 2}"])
def test_other_numbers_are_refused(key: str) -> None:
    with pytest.raises(DocumentError, match=r"^script: R: Root/S: .*wanted"):
        nuke_reader.read_text(script(moving("{" + key + "}")))
