"""The features that a shape format may keep, with names shared by the tests, the report and the documentation.

Standard library only.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Feature = Literal[
    "tangents",  # each control point's two offsets
    "points",  # which control points, how many and in which order
    "open",  # open curves stay open
    "keys",  # the keyed frames, no more and no fewer
    "holds",  # a pose kept until the next key
    "feather",  # softness outside the edge
    "width",  # of an open curve's stroke
    "taper",  # narrowing of a stroke's ends
    "subtract",  # a shape that holds out
    "visibility",  # frames at which a shape is hidden
    "layers",  # shapes grouped by the parts of their names before `/`
    "names",  # names letter by letter
    "order",  # which shape lies on which
    "roles",  # seam or matte
    "sources",  # who set a key
    "landmarks",
    "aspect",  # pixel aspect
    "fps",
    "range",  # first and last frame of the shot
    "size",  # width and height of the plate
]

EVERY: Final[frozenset[Feature]] = frozenset(get_args(Feature))
