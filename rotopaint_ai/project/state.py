"""The state of a shot as one frozen value: every edit makes a new state, and undo returns to an earlier one.

Standard library only, so that the Python of a host such as Nuke can load it. Plate space, pixels; frames as on disk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from rotopaint_ai import fills, spreads
from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange.document import MOST_WIDTH_PX
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes.roto import RotoDocument

Mark = Literal["accepted", "needs work", "rejected"]
WidthProfile = tuple[tuple[float, float], ...]
MOST_PROFILE = 100.0
MARKS: tuple[Mark, ...] = get_args(Mark)


@dataclass(frozen=True, slots=True)
class CropBox:
    """A crop box dragged by hand: top-left corner and size, plate pixels."""

    x: float
    y: float
    width: float
    height: float

    def word(self, frame: int) -> str:
        """The box as an argument of the command line."""
        return f"{frame}:" + ",".join(f"{value:.6g}" for value in (self.x, self.y, self.width, self.height))


@dataclass(frozen=True, slots=True)
class SeamSettings:
    """A person's settings for painting out one seam; None leaves a value to the model in every run.

    `width_px` is the full width of the matte, `feather_px` the softness outside it, `taper` the share of the length
    over which each end narrows. `grain` is the share of grain in the paint (0 smooth, 1 as the plate). `strength` is
    the opacity of the paint (0 plate, 1 paint only). `profile`: the reach of the matte to the left and to the right of
    the seam's direction (y down) at each control point, in half widths. The width is even where the profile is empty or
    has another number of points than the seam. `hold_out`: what stands in front of the seam is held out of its paint.
    """

    width_px: float | None = None
    feather_px: float | None = None
    taper: tuple[float, float] | None = None
    method: str = fills.DEFAULT
    grain: float = 1.0
    strength: float = 1.0
    profile: WidthProfile | None = None
    hold_out: bool = True

    def __post_init__(self) -> None:
        for name, value in (("width_px", self.width_px), ("feather_px", self.feather_px)):
            if value is not None and not 0 <= value <= MOST_WIDTH_PX:
                raise UsageError(f"seam: {name} is {value}; wanted 0 to {MOST_WIDTH_PX:,.0f} px")
        shares = (*(self.taper or ()), self.grain, self.strength)
        if not all(math.isfinite(share) and 0 <= share <= 1 for share in shares):
            raise UsageError(f"seam: taper, grain and strength are {shares}; each is a share from 0 to 1")
        sides = [side for row in self.profile or () for side in row]
        if not all(math.isfinite(side) and 0 <= side <= MOST_PROFILE for side in sides):
            raise UsageError(f"seam: its profile is {self.profile}; wanted 0 to {MOST_PROFILE:g} half widths")


@dataclass(frozen=True, slots=True)
class Spread:
    """A correction made at `frame` and propagated to `first` to `last`, both included, in these shapes.

    `way`: the name of a row of `spreads.SPREADS`.
    """

    frame: int
    first: int
    last: int
    shapes: frozenset[str] = frozenset()
    way: str = spreads.RANGE


@dataclass(frozen=True, slots=True)
class OtherFace:
    """A face of the shot that is set aside, see `faces`: the pack of its last run, its landmarks and predictions.

    `aside`: maps the models' names of its shapes to their current names. `document` has its landmarks and no shapes.
    `predicted` is the models' prediction, without groups.
    """

    pack: str | None = None
    aside: Mapping[str, str] = field(default_factory=dict)
    crops: Mapping[int, CropBox] = field(default_factory=dict)
    document: RotoDocument | None = None
    predicted: RotoDocument | None = None
    spreads: tuple[Spread, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All that undo restores.

    `document` is shown and exported. `predicted` is the models' prediction of the same frames, with which corrections
    are compared. `marks` are a person's judgement of frames, `seams` the settings by name of the shape, `strokes` the
    touch-up of the clean plate by frame, `names` the given names of shapes, `notes` people's notes on frames. `face` is
    the name of the current face, empty where there is only one face; `faces` are the others, see
    `face_groups.choose_face`.
    """

    document: RotoDocument | None = None
    crops: Mapping[int, CropBox] = field(default_factory=dict)
    predicted: RotoDocument | None = None
    marks: Mapping[int, Mark] = field(default_factory=dict)
    seams: Mapping[str, SeamSettings] = field(default_factory=dict)
    spreads: tuple[Spread, ...] = ()
    strokes: Mapping[int, Strokes] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)
    face: str = ""
    faces: Mapping[str, OtherFace] = field(default_factory=dict)

    @property
    def aside(self) -> frozenset[str]:
        """Names of the shapes of faces that are set aside."""
        return frozenset(name for face in self.faces.values() for name in face.aside.values())

    def seam(self, shape: str) -> SeamSettings:
        """A seam's settings; the defaults where nobody has set any."""
        return self.seams.get(shape, SeamSettings())
