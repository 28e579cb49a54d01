"""Small shots for the tests of every format, by hand and at random."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.exchange.formats import FORMATS
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

# a rectangle whose four corners have handles of unequal lengths and directions: swapped handles are far off
CORNERS = (
    ControlPoint(300, 200, -10, 60, 90, -20),
    ControlPoint(700, 220, -40, -30, 15, 80),
    ControlPoint(690, 500, 25, -70, -120, 10),
    ControlPoint(310, 480, 60, 35, -5, -50),
)
SEAM = (
    ControlPoint(100, 300, -5, 0, 40, 12),
    ControlPoint(400, 340.5, -80, 10, 60, -30),
    ControlPoint(620, 310, -50, 9, 4, -2),
)
TEXT_FORMS = [
    each
    for each in FORMATS
    if each.losses is not None
    and each.suffixes[0] in (".ssf", ".setting", ".jsx", ".py", ".fxs", ".coco.json", ".lottie.json")
]


def form(name: str) -> FormatSpec:
    """The row of a format in the table, by its name."""
    return next(each for each in FORMATS if each.name == name)


def moved(points: Points, dx: float, dy: float = 0.0) -> Points:
    """All points moved by the same vector."""
    return tuple(p._replace(x=p.x + dx, y=p.y + dy) for p in points)


def shot(*shapes: RotoShape, width: int = 960, height: int = 640, first: int = 1001, last: int = 1010) -> RotoDocument:
    """A shot of these shapes."""
    return RotoDocument(width, height, first, last, shapes=shapes)


def corners(name: str = "corners", by: float = 20.0) -> RotoShape:
    """The rectangle, which moves over the shot."""
    keys = {1001: Key(CORNERS, "human"), 1010: Key(moved(CORNERS, by, -by / 2), "human")}
    return RotoShape(name, True, "matte", keys)


def seam(name: str = "nose_seam") -> RotoShape:
    """An open stroke, which moves over the shot."""
    keys = {1001: Key(SEAM, "human"), 1010: Key(moved(SEAM, 12, 5), "human")}
    return RotoShape(name, False, "seam", keys, width_px=6.0)


_place = st.floats(-300, 1500).map(lambda v: round(v, 3))
_offset = st.floats(-120, 120).map(lambda v: round(v, 3))
_points = st.builds(ControlPoint, _place, _place, *[_offset] * 4)
_names = st.sampled_from(
    ["eye", "nose_seam", "pip/face/eye", "linkes Auge", "é-3", "9 lives", "a/b", "eye #2", "x'''y"]
)


@st.composite
def shapes(draw: st.DrawFn) -> RotoShape:
    """A shape with a few keys on frames 1001 to 1012."""
    n = draw(st.integers(2, 4))
    frames = draw(st.lists(st.integers(1001, 1012), min_size=1, max_size=4, unique=True))
    keys = {
        frame: Key(
            tuple(draw(st.lists(_points, min_size=n, max_size=n))),
            draw(st.sampled_from(["human", "model"])),
            draw(st.sampled_from(["linear", "hold"])),
        )
        for frame in sorted(frames)
    }
    closed = draw(st.booleans())
    hidden = draw(st.sets(st.integers(1001, 1012), max_size=3))
    return RotoShape(
        draw(_names),
        closed,
        draw(st.sampled_from(["seam", "matte"])),
        keys,
        None if closed else draw(st.sampled_from([None, 2.0, 7.5])),
        draw(st.sampled_from([0.0, 3.25])),
        (0.0, 0.0) if closed else draw(st.sampled_from([(0.0, 0.0), (0.25, 0.5)])),
        dict.fromkeys(sorted(hidden), False),
    )


@st.composite
def documents(draw: st.DrawFn) -> RotoDocument:
    """A shot of up to three shapes with different names."""
    found = draw(st.lists(shapes(), min_size=1, max_size=3, unique_by=lambda shape: shape.name))
    size = draw(st.sampled_from([(1920, 1080), (1080, 1920), (2048, 1556)]))
    meant = RotoDocument(*size, 1001, 1012, shapes=tuple(found))
    return replace(meant, pixel_aspect=draw(st.sampled_from([1.0, 2.0])), fps=draw(st.sampled_from([24.0, 23.976])))
