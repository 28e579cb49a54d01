"""Text of a `curves` value as words, and how little memory a long shot's takes."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke, nuke_curves, nuke_text, nuke_writer
from rotopaint_ai.exchange.nuke_tree import NukeShape
from rotopaint_ai.exchange.nuke_words import nest, unfold
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

from .test_nuke import curves_of

ENTRIES = [
    "{{{1 2} {3 4}} 5}",
    "{{a osw 2} {1 2} {1 -}}",
    r'{{"=frame \" {"} {1 2}}',
    r"{{=a\{b} 1}",
    "{{{x 2 {7 -}} {{{deep}}}} 1}",
    "{}",
    "7",
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_folded_entries_hold_the_same_words(entry: str) -> None:
    text = f"{{cc {{f 8192}} {{px {{1 2}} {entry} {ENTRIES[0]} {entry}}}}}"
    whole, folded = (nest(text, "here", folded=folded)[0][2] for folded in (False, True))
    assert [unfold(each, "here") for each in folded] == whole
    assert folded[3] == ENTRIES[0]  # as text: nothing of it is in memory as words


def test_times_and_other_lists_are_never_folded() -> None:
    text = "{px {1 2} {3}} {p {1 2} {3}} {a px {1 2} {3}}"
    assert nest(text, "here", folded=True) == [["px", ["1", "2"], "{3}"], *nest(text, "here")[1:]]


@pytest.mark.parametrize("text", ["{px {1} {2}", "{px {1} {2}}}", "{px {1} {2"])
def test_braces_without_their_other_are_reported_alike(text: str) -> None:
    reported = []
    for folded in (False, True):
        with pytest.raises(DocumentError) as error:
            nest(text, "shot.nk", folded=folded)
        reported.append(str(error.value))
    assert reported[0] == reported[1]
    assert reported[0].startswith("shot.nk: ")


def test_signs_of_zero_slopes_and_weights_are_kept() -> None:
    """-0 equals 0 but is written otherwise, so shared values are compared by their text."""
    keys = "{{1 0 1 0 1} {2 x80000000 1 0 x80000000} {3 0 0 x80000000 0}}"
    curves = f"{{{{v 1}} {{f 0}} {{n {{layer Root {{f 0}} {{t}} {{a}} {_group(f'{{px {{1 2 3}} {{{keys} 0}}}}')}}}}}}}"
    shape = nuke_curves.parse_curves(curves).root.children[0]
    assert isinstance(shape, NukeShape)
    found = shape.outline.points[0].values[0].keys
    assert [math.copysign(1, key.left_slope) for key in found] == [1, -1, 1]
    assert [math.copysign(1, key.right_slope) for key in found] == [1, 1, -1]
    assert [math.copysign(1, key.right_weight) for key in found] == [1, -1, 1]
    assert nuke_curves.parse_curves(nuke_text.serialise(nuke_curves.parse_curves(curves))).root.children[0] == shape
    assert nuke_text.serialise(nuke_curves.parse_curves(curves)).count("x80000000") == 3


def _group(points: str) -> str:
    return f"{{curvegroup A 512 bezier {{{{cc {{f 8192}} {points}}} idem}} {{t}} {{a}}}}"


def _long(n_keys: int, n_points: int = 8) -> RotoDocument:
    def key(frame: int) -> Key:
        rows = (
            (100 + 7 * p + math.sin(frame + p), 90.3 + frame / 7 + p, -1.1, frame / 9, 1.7, p / 3)
            for p in range(n_points)
        )
        return Key(tuple(ControlPoint(*row) for row in rows))

    shape = RotoShape("Nose", True, "matte", {frame: key(frame) for frame in range(1, n_keys + 1)})
    return RotoDocument(640, 360, 1, n_keys, shapes=(shape,))


def test_entries_are_those_of_the_text() -> None:
    tree = nuke_writer.build_layers(_long(5)).tree
    read = nuke_curves.parse_curves(nuke_text.serialise(tree))
    shapes = [each.root.children[0] for each in (tree, read)]
    made, found = (shape.outline.points for shape in shapes if isinstance(shape, NukeShape))
    assert made == found
    assert made[::2] == found[::2]
    assert made[-1] == found[-1]
    assert len(made) == 24
    with pytest.raises(IndexError):
        made[24]


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_shot_s_text_is_made_and_read_in_little_memory() -> None:
    """Building all keys and words of a shape at once took 13.7 and 13.8 times the text."""
    document = _long(400)
    text = nuke.dumps(document)
    curves = curves_of(text)
    assert _peak(lambda: nuke.dumps(document)) < 6 * len(text)
    assert _peak(lambda: nuke_curves.parse_curves(curves)) < 13 * len(text)
