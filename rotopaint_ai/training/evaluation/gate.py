"""The gate: a new pack must not be worse than an old one on any shot or shape, beyond a tolerance.

What is compared, on the same samples: the mean and the 95th percentile of the landmark error of each shot; the mean
curve distance of each shape, and of each shape in each shot; the IoU of each shape's matte; jitter on moving frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 0.05  # share by which a distance may grow
FLOOR_PX = 0.1  # and what it may always grow by: below that nobody sees it
FLOOR_IOU = 0.02

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GateFigure:
    """One figure of the new pack beside the old one's, and the limit that it had to keep to."""

    where: str
    figure: str
    new: float | None
    old: float
    limit: float
    larger_is_better: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the limit is broken; a figure that the new pack cannot give at all breaks it too."""
        if self.new is None:
            return True
        return self.new < self.limit if self.larger_is_better else self.new > self.limit

    def content(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "where": self.where,
            "figure": self.figure,
            "new": self.new,
            "old": self.old,
            "limit": round(self.limit, 4),
            "is_worse": self.is_worse,
        }


def compare(new: Json, old: Json, tolerance: float = TOLERANCE) -> list[GateFigure]:
    """All figures that the old pack has, the broken ones first. Both come from `metrics` on one data set."""
    found = list(_gate_figures(new, old, tolerance))
    return sorted(found, key=lambda each: not each.is_worse)


def _gate_figures(new: Json, old: Json, tolerance: float) -> Iterator[GateFigure]:
    for shot, figures in old["per_shot"].items():
        for figure in ("mean", "p95"):
            yield from _gate_distance(
                shot,
                f"landmarks {figure} px",
                value_at(new, "per_shot", shot, "landmarks_px", figure),
                figures["landmarks_px"][figure],
                tolerance,
            )
        for shape, spread in figures["shapes_px"].items():
            yield from _gate_distance(
                f"{shot}, {shape}",
                "curve mean px",
                value_at(new, "per_shot", shot, "shapes_px", shape, "mean"),
                spread["mean"],
                tolerance,
            )
    for shape, figures in old["per_shape"].items():
        yield from _gate_distance(
            shape, "curve mean px", value_at(new, "per_shape", shape, "px", "mean"), figures["px"]["mean"], tolerance
        )
        if figures["matte_iou"] is not None:
            limit = figures["matte_iou"] - max(FLOOR_IOU, tolerance * (1 - figures["matte_iou"]))
            yield GateFigure(
                shape, "matte IoU", value_at(new, "per_shape", shape, "matte_iou"), figures["matte_iou"], limit, True
            )
    yield from _gate_distance(
        "moving frames",
        "jitter px",
        value_at(new, "motion", "moving_px", "steadied"),
        value_at(old, "motion", "moving_px", "steadied"),
        tolerance,
    )


def _gate_distance(where: str, figure: str, new: Any, old: Any, tolerance: float) -> Iterator[GateFigure]:
    if old is not None:
        yield GateFigure(where, figure, new, old, old + max(FLOOR_PX, tolerance * old))


def value_at(content: Any, *path: str) -> Any:
    """What stands in nested tables under those names, one in the other; None where one is missing."""
    for name in path:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def text(compared: list[GateFigure], names: tuple[str, str], *, most: int = 40) -> str:
    """The table for people: what is worse, or one line that nothing is."""
    worse = [each for each in compared if each.is_worse]
    if not worse:
        return f"gate: {names[0]} is not worse than {names[1]} on any of {len(compared)} figures"
    width = max(len(each.where) for each in worse)
    head = f"gate: {names[0]} is worse than {names[1]} on {len(worse)} of {len(compared)} figures"
    rows = [
        f"  {each.where:{width}}  {each.figure:20}  {_as_cell(each.new):>8}  was {_as_cell(each.old):>8}, limit "
        f"{_as_cell(each.limit):>8}"
        for each in worse[:most]
    ]
    return "\n".join([head, *rows, *([f"  ... and {len(worse) - most} more"] if len(worse) > most else [])])


def _as_cell(value: float | None) -> str:
    return "absent" if value is None else f"{value:.3f}"
