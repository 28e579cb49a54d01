"""The pack's second opinion on a frame's seam matte, and what is told of it. It changes nothing that is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.frames import summarise
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.track import LazyRgb
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.seams.agreement import DOUBTFUL, Opine, agreement, in_crop
from rotopaint_ai.shapes.rasterise import Region

Agreed = Callable[[Frame, Crop, Region], float | None]


def second_opinion(opine: Opine | None) -> Agreed | None:
    """Asks `opine` of a frame: how far it agrees with the seam matte, 0 to 1, None where neither shows a seam."""
    if opine is None:
        return None

    def agreed(frame: Frame, crop: Crop, seam: Region) -> float | None:
        pixels = cast(npt.NDArray[Any], LazyRgb(frame))
        picture = np.clip(to_display(cut(pixels, frame.origin, crop, opine.size_px)), 0, 1)
        found = agreement(opine(picture[None].astype(np.float32))[0], in_crop(seam, crop, opine.size_px))
        return None if found is None else round(found.score, 4)

    return agreed


def summary(records: Sequence[FrameRecord]) -> dict[str, Any]:
    """What `run.json` says of it: agreement by frame, and the frames where the two part; empty without an opinion."""
    known = {record.frame: record.agreement for record in records if record.agreement is not None}
    if not known:
        return {}
    doubtful = [frame for frame, score in known.items() if score < DOUBTFUL]
    return {"by_frame": {str(frame): score for frame, score in known.items()}, "doubtful": doubtful, "limit": DOUBTFUL}


def disagreement(opinion: Mapping[str, Any]) -> str | None:
    """A warning where the network and the splines part; None where they do not."""
    if not opinion or not opinion["doubtful"]:
        return None
    return (
        f"matte check: the pack's seam network and the splines part at {summarise(opinion['doubtful'])} (agreement "
        f"below {opinion['limit']:.0%}); look at those frames first; no matte was changed"
    )
