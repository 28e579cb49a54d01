"""The gate: whether a pack may replace another one, by metrics on frames that neither was trained on.

Compared on the same samples, with a tolerance: mean and 95th percentile of the landmark error of each shot; mean curve
distance of each shape, overall and per shot; matte IoU of each shape; jitter on moving frames. A pack's card lists the
frames it was trained on; that list is checked before its metrics count.
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

TOLERANCE = 0.05  # allowed increase of a distance, as a share
FLOOR_PX = 0.1  # increase that is always allowed, because it is invisible
FLOOR_IOU = 0.02
_MOST_LINES = 40

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GateFigure:
    """One metric of the new and the old pack, and the limit for the new one."""

    where: str
    figure: str
    new: float | None
    old: float
    limit: float
    larger_is_better: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the limit is violated; a metric that the new pack lacks counts as violated."""
        if self.new is None:
            return True
        return self.new < self.limit if self.larger_is_better else self.new > self.limit

    def content(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        own = {name: getattr(self, name) for name in ("where", "figure", "new", "old")}
        return {**own, "limit": round(self.limit, 4), "is_worse": self.is_worse}


def compare_packs(new: Json, old: Json, tolerance: float = TOLERANCE) -> list[GateFigure]:
    """All metrics that the old pack has, violated ones first. Both tables come from `pack_metrics` on one data set."""
    found = list(_gate_figures(new, old, tolerance))
    return sorted(found, key=lambda each: not each.is_worse)


def _gate_figures(new: Json, old: Json, tolerance: float) -> Iterator[GateFigure]:
    def distance(where: str, figure: str, *path: str) -> Iterator[GateFigure]:
        before = value_at(old, *path)
        if before is not None:
            limit = before + max(FLOOR_PX, tolerance * before)
            yield GateFigure(where, figure, value_at(new, *path), before, limit)

    for shot, figures in old["per_shot"].items():
        for figure in ("mean", "p95"):
            yield from distance(shot, f"landmarks {figure} px", "per_shot", shot, "landmarks_px", figure)
        for shape in figures["shapes_px"]:
            yield from distance(f"{shot}, {shape}", "curve mean px", "per_shot", shot, "shapes_px", shape, "mean")
    for shape, figures in old["per_shape"].items():
        yield from distance(shape, "curve mean px", "per_shape", shape, "px", "mean")
        if (iou := figures["matte_iou"]) is not None:
            limit = iou - max(FLOOR_IOU, tolerance * (1 - iou))
            yield GateFigure(shape, "matte IoU", value_at(new, "per_shape", shape, "matte_iou"), iou, limit, True)
    yield from distance("moving frames", "jitter px", "motion", "moving_px", "steadied")


def value_at(content: Any, *path: str) -> Any:
    """The value in nested tables at a path of names; None where a name is missing."""
    for name in path:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def gate_text(compared: list[GateFigure], names: tuple[str, str]) -> str:
    """The comparison as text: a table of the metrics that are worse, or one line if none is."""
    worse = [replace(each, where=in_one_line(each.where)) for each in compared if each.is_worse]
    new, old = map(in_one_line, names)
    if not worse:
        return f"gate: {new} is not worse than {old} on any of {len(compared)} figures"
    width = max(len(each.where) for each in worse)
    head = f"gate: {new} is worse than {old} on {len(worse)} of {len(compared)} figures"
    rows = [
        f"  {each.where:{width}}  {each.figure:20}  {_as_cell(each.new):>8}  was {_as_cell(each.old):>8}, limit "
        f"{_as_cell(each.limit):>8}"
        for each in worse[:_MOST_LINES]
    ]
    more = len(worse) - len(rows)
    return "\n".join([head, *rows, *([f"  ... and {more} more"] if more else [])])


def _as_cell(value: float | None) -> str:
    return "absent" if value is None else f"{value:.3f}"


FRAMES: Final = "frames"  # card entry: frames trained on, {character: {shot: "1001-1030"}}
FRAMES_AT_LAST: Final = "frames_at_last"  # card entry: validation frames that the last part of training used
AT_LAST: Final = "learned_held_out_at_last"
EVALUATED: Final = "judged"  # in a pack's run folder: the pack before that last part
_MOST_SHOTS: Final = 2000  # most shots on a card; a larger training is identified by its data sets' names only

Frames = Mapping[str, Mapping[str, str]]


def card_frames(data: Dataset, init: str | Path | None) -> dict[str, Frames]:
    """The card's record of the frames that a training on `data` from the pack `init` uses."""
    known = _init_training(init)
    before = (each for name in (FRAMES, FRAMES_AT_LAST) for each in _frames_on_card(known.get(name)))
    found = {
        FRAMES: _frames_by_shot([*before, *_frame_keys(data, "train")]),
        FRAMES_AT_LAST: _frames_by_shot(_frame_keys(data, "val")),
    }
    is_too_much = sum(len(shots) for each in found.values() for shots in each.values()) > _MOST_SHOTS
    return {} if is_too_much else found


def _init_training(init: str | Path | None) -> Mapping[str, Any]:
    """The training record on the card of the initial pack; empty without one."""
    try:
        return {} if init == "none" else _training_record(load_card(find_pack(init)))
    except PackError:
        return {}


def _training_record(card: Json) -> Json:
    """The training record on a card; empty without a valid one."""
    training = card.get("training")
    return training if isinstance(training, Mapping) else {}


FrameKey = tuple[str, str, int]  # character, shot and frame


def _frame_keys(data: Dataset, *splits: Split) -> list[FrameKey]:
    return [(s.character, s.shot, s.frame) for s in data.samples if s.split in splits]


def _frames_by_shot(frames: Iterable[FrameKey]) -> Frames:
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for character, shot, frame in frames:
        found[character][shot].append(frame)
    return {character: {shot: summarise(own) for shot, own in shots.items()} for character, shots in found.items()}


def _frames_on_card(frames: Any) -> Iterator[FrameKey]:
    """Character, shot and number of every frame in a card's record; empty for an invalid record. Raises: UsageError."""
    for character, shots in frames.items() if isinstance(frames, Mapping) else ():
        for shot, text in shots.items() if isinstance(shots, Mapping) else ():
            for span in str(text).split(","):
                yield from ((character, shot, frame) for frame in FrameRange.parse(span.strip()))


def trained_frames(card: Mapping[str, Any], measured: Dataset) -> dict[str, str]:
    """The evaluated frames that a pack was trained on according to its card, by shot; empty if the card lists none.

    Raises: UsageError for a card whose frames cannot be parsed.
    """
    training = _training_record(card)
    names = (FRAMES, FRAMES_AT_LAST) if training.get(AT_LAST) is True else (FRAMES,)
    known = {each for name in names for each in _frames_on_card(training.get(name))}
    learned = [each for each in _frame_keys(measured, *SPLITS) if each in known]
    return {shot: text for shots in _frames_by_shot(learned).values() for shot, text in shots.items()}


def was_trained_on(card: Mapping[str, Any], measured: Dataset) -> bool:
    """Whether a pack was trained on some of the evaluated samples, by the card's frames, else by its data sets'
    names."""
    training = _training_record(card)
    if FRAMES in training:
        return bool(trained_frames(card, measured))
    if not set(str(training.get("data", "")).split(" + ")) & {measured.name}:
        return False
    seen = {"train", "val"} if training.get(AT_LAST) is True else {"train"}
    return any(sample.split in seen for sample in measured.samples)
