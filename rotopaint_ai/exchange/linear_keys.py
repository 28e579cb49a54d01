"""Keys for formats that interpolate only linearly: holds and hidden frames expressed by linear keys.

Standard library only.
"""

from __future__ import annotations

from itertools import pairwise

from rotopaint_ai.shapes.roto import Points, RotoShape


def linear_keys(shape: RotoShape) -> dict[int, Points]:
    """Keys that give the same pose at every whole frame when all of them are interpolated linearly.

    A hold becomes two equal keys: one where it begins, one on the frame before the next key.
    """
    keys: dict[int, Points] = {}
    for frame, after in pairwise((*shape.frames, *shape.frames[-1:])):
        key = shape.keys[frame]
        keys[frame] = key.points
        if key.interpolation == "hold" and after > frame + 1:
            keys[after - 1] = key.points
    return keys


def eased_frames(shape: RotoShape) -> set[float]:
    """Frames between eased keys, three per segment: two cubics that agree there and at the keys are equal.

    Between keys one frame apart there is none, because the Nuke reader treats such a step as linear. For a shape in a
    layer, all whole frames between the layer's keys are included, and one frame beyond them.
    """
    chain = () if shape.layer is None else shape.layer.chain
    layered = [frame for layer in chain for rows in (layer.poses, layer.track) for frame in rows]
    between = range(min(layered) - 1, max(layered) + 2) if layered else ()
    return {*map(float, between)} | {
        frame + (after - frame) * share
        for frame, after in pairwise(shape.frames)
        if after > frame + 1 and shape.keys[frame].interpolation in ("ease", "smooth")
        for share in (0.25, 0.5, 0.75)
    }


def hidden_runs(shape: RotoShape, first: int, last: int) -> list[tuple[int, int]]:
    """Runs of frames (both ends included) on which a shape is hidden, within a range."""
    runs: list[tuple[int, int]] = []
    for frame in sorted(f for f, shown in shape.visible.items() if not shown and first <= f <= last):
        if runs and runs[-1][1] == frame - 1:
            runs[-1] = (runs[-1][0], frame)
        else:
            runs.append((frame, frame))
    return runs


def switches(shape: RotoShape, first: int, last: int) -> list[tuple[int, bool]]:
    """Frames at which a shape becomes visible or hidden, including the first frame; empty if it is never hidden."""
    runs = hidden_runs(shape, first, last)
    if not runs:
        return []
    found: dict[int, bool] = {first: True}
    for begin, end in runs:
        found[begin] = False
        if end < last:
            found[end + 1] = True
    return sorted(found.items())


def visible_between(changes: list[tuple[int, bool]], first: int, last: int) -> dict[int, bool]:
    """The hidden frames of a range, from the frames at which a shape is switched on and off."""
    hidden: dict[int, bool] = {}
    if not changes:
        return hidden
    ends = [frame for frame, _ in changes[1:]] + [last + 1]
    for (begin, shown), end in zip(changes, ends, strict=True):
        start = first if begin == changes[0][0] else begin
        if not shown:
            hidden.update(dict.fromkeys(range(max(start, first), min(end, last + 1)), False))
    return hidden
