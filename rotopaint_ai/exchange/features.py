"""The features that a shape format may keep, with names shared by the tests, the report and the documentation.

Standard library only.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Feature = Literal[
    "tangents",  # each control point's two offsets
    "points",  # the control points: how many, and in which order
    "open",  # open curves stay open
    "keys",  # exactly the keyed frames
    "holds",  # a pose kept until the next key
    "feather",  # softness outside the edge
    "width",  # width of an open curve's stroke
    "taper",  # narrowing of a stroke's ends
    "subtract",  # a shape that is a hold-out
    "visibility",  # frames at which a shape is hidden
    "layers",  # shapes grouped by the parts of their names before `/`
    "names",  # exact names
    "order",  # the stacking order of shapes
    "roles",  # seam or matte
    "sources",  # who set a key
    "landmarks",
    "aspect",  # pixel aspect
    "fps",
    "range",  # first and last frame of the shot
    "size",  # width and height of the plate
]

EVERY: Final[frozenset[Feature]] = frozenset(get_args(Feature))
