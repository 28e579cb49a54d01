"""Sizes and pixel aspects that nodes of a script state, by hand."""

from __future__ import annotations

import pytest

from rotopaint_ai.exchange.nuke_script import nodes
from rotopaint_ai.exchange.nuke_size import _format, _pivot_size, pixel_aspect
from rotopaint_ai.exchange.nuke_tree import CurvesTree, NukeCurve, NukeLayer, NukeTransform


def _node(kind: str, format_: str) -> str:
    return f'{kind} {{\n format "{format_}"\n name A\n}}\n'


WIDE = "2048 1556 0 0 2048 1556 2 anamorphic"


@pytest.mark.parametrize(
    ("script", "aspect"),
    [
        (_node("Root", WIDE), 2.0),
        (_node("Roto", WIDE), 2.0),
        (_node("RotoPaint", "640 480 0 0 640 480 0.5"), 0.5),
        (_node("Grade", WIDE), 1.0),  # what another node says of itself
        (_node("Root", "2048 1556 0 0 2048 1556"), 1.0),
        (_node("Root", "2048 1556 0 0 2048 1556 wide"), 1.0),
        (_node("Root", "2048 1556 0 0 2048 1556 0 flat"), 1.0),
        (_node("Root", "2048 1556 0 0 2048 1556 inf flat"), 1.0),
        (_node("Grade", WIDE) + _node("Root", "640 480 0 0 640 480 nan") + _node("Roto", WIDE), 2.0),
        ("", 1.0),
    ],
)
def test_the_first_format_that_states_a_pixel_aspect_gives_it(script: str, aspect: float) -> None:
    assert pixel_aspect(list(nodes(script))) == aspect


@pytest.mark.parametrize(
    ("stated", "size"),
    [(WIDE, [(2048, 1556)]), (" 640 480", [(640, 480)]), ("0 480", []), ("640 0", []), ("HD_1080", []), ("", [])],
)
def test_a_format_states_a_width_and_a_height(stated: str, size: list[tuple[int, int]]) -> None:
    (node,) = nodes(_node("Roto", stated))
    assert _format(node) == size


@pytest.mark.parametrize(
    ("pivot", "size"),
    [
        ((320.0, 180.5), [(640, 361)]),
        ((0.5, 0.5), [(1, 1)]),
        ((320.25, 180.0), []),  # in the middle of no whole pixels
        ((320.0, 180.25), []),
        ((0.0, 180.0), []),
        ((-320.0, 180.0), []),
        ((320.0,), []),
        ((), []),
    ],
)
def test_a_pivot_in_the_middle_of_a_plate_states_its_size(
    pivot: tuple[float, ...], size: list[tuple[int, int]]
) -> None:
    transform = NukeTransform(None, tuple(map(NukeCurve, (*pivot, 7.0) if len(pivot) == 2 else pivot)))
    assert _pivot_size(CurvesTree(6.1, 0, NukeLayer("Root", 0, transform, (), ()))) == size
