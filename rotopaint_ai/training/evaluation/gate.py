"""Whether a pack may take another's place: figures that must not be worse, of frames that neither has learned from.

The gate compares, on the same samples and beyond a tolerance: the mean and the 95th percentile of the landmark error of
each shot; the mean curve distance of each shape, and of each shape in each shot; the IoU of each shape's matte; jitter
on moving frames. Frames that a pack has learned from are written on its card, and looked up before its figures are
believed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import PackError, in_one_line
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.inference.pack import find_pack, load_card
from rotopaint_ai.training.data.dataset import SPLITS, Dataset, Split

TOLERANCE = 0.05  # share by which a distance may grow
FLOOR_PX = 0.1  # and an increase that is always allowed, because it is invisible
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
        own = {name: getattr(self, name) for name in ("where", "figure", "new", "old")}
        return {**own, "limit": round(self.limit, 4), "is_worse": self.is_worse}


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
    """The value in nested tables at a path of names; None where a name is missing."""
    for name in path:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def text(compared: list[GateFigure], names: tuple[str, str], *, most: int = 40) -> str:
    """The table for people: the figures that are worse, or a line that none is."""
    worse = [replace(each, where=in_one_line(each.where)) for each in compared if each.is_worse]
    new, old = map(in_one_line, names)
    if not worse:
        return f"gate: {new} is not worse than {old} on any of {len(compared)} figures"
    width = max(len(each.where) for each in worse)
    head = f"gate: {new} is worse than {old} on {len(worse)} of {len(compared)} figures"
    rows = [
        f"  {each.where:{width}}  {each.figure:20}  {_as_cell(each.new):>8}  was {_as_cell(each.old):>8}, limit "
        f"{_as_cell(each.limit):>8}"
        for each in worse[:most]
    ]
    return "\n".join([head, *rows, *([f"  ... and {len(worse) - most} more"] if len(worse) > most else [])])


def _as_cell(value: float | None) -> str:
    return "absent" if value is None else f"{value:.3f}"


FRAMES: Final = "frames"  # on a card: those trained on, {character: {shot: "1001-1030"}}
FRAMES_AT_LAST: Final = "frames_at_last"  # and those held out until the last part of a training
AT_LAST: Final = "learned_held_out_at_last"
JUDGED: Final = "judged"  # in a pack's run folder: the pack before that last part
_MOST_SHOTS: Final = 2000  # on a card; a training on more of them is known by its data sets' names alone

Frames = Mapping[str, Mapping[str, str]]


def card_frames(data: Dataset, init: str | Path | None) -> dict[str, Frames]:
    """The card's record of the frames that a training on `data` from the pack `init` uses."""
    known = _init_training(init)
    before = (each for name in (FRAMES, FRAMES_AT_LAST) for each in _each(known.get(name)))
    found = {FRAMES: _by_shot([*before, *_frames(data, "train")]), FRAMES_AT_LAST: _by_shot(_frames(data, "val"))}
    is_too_much = sum(len(shots) for each in found.values() for shots in each.values()) > _MOST_SHOTS
    return {} if is_too_much else found


def _init_training(init: str | Path | None) -> Mapping[str, Any]:
    """The training record on the card of the start pack; empty where there is none."""
    try:
        training = load_card(find_pack(init)).get("training") if init != "none" else None
    except PackError:
        return {}
    return training if isinstance(training, Mapping) else {}


Place = tuple[str, str, int]  # character, shot and frame


def _frames(data: Dataset, *splits: Split) -> list[Place]:
    return [(s.character, s.shot, s.frame) for s in data.samples if s.split in splits]


def _by_shot(frames: Iterable[Place]) -> Frames:
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for character, shot, frame in frames:
        found[character][shot].append(frame)
    return {character: {shot: summarise(own) for shot, own in shots.items()} for character, shots in found.items()}


def _each(frames: Any) -> Iterator[Place]:
    """Character, shot and number of every frame on a card; what is no such table holds none. Raises: UsageError."""
    for character, shots in frames.items() if isinstance(frames, Mapping) else ():
        for shot, text in shots.items() if isinstance(shots, Mapping) else ():
            for span in str(text).split(","):
                yield from ((character, shot, frame) for frame in FrameRange.parse(span.strip()))


def learned_frames(card: Mapping[str, Any], measured: Dataset) -> dict[str, str]:
    """Of the measured samples those that a pack has learned from by its card, frames by shot; none where it is silent.

    Raises: UsageError for a card whose frames cannot be read.
    """
    training = card.get("training")
    if not isinstance(training, Mapping):
        return {}
    names = (FRAMES, FRAMES_AT_LAST) if training.get(AT_LAST) is True else (FRAMES,)
    known = {each for name in names for each in _each(training.get(name))}
    learned = [each for each in _frames(measured, *SPLITS) if each in known]
    return {shot: text for shots in _by_shot(learned).values() for shot, text in shots.items()}


def has_learned(card: Mapping[str, Any], measured: Dataset) -> bool:
    """Whether a pack has learned from some of the measured samples: by the frames on its card, else by the names of the
    data sets on it."""
    training = card.get("training")
    if not isinstance(training, Mapping):
        return False
    if FRAMES in training:
        return bool(learned_frames(card, measured))
    if not set(str(training.get("data")).split(" + ")) & {measured.name}:
        return False
    seen = {"train", "val"} if training.get(AT_LAST) is True else {"train"}
    return any(sample.split in seen for sample in measured.samples)
