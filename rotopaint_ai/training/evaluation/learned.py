"""Which frames a pack has learned from: written on its card, and looked up before its figures are believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import PackError
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.inference.pack import find_pack, load_card
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.data.sample_lines import Sample, Split

FRAMES: Final = "frames"  # on a card: those trained on, {character: {shot: "1001-1030"}}
FRAMES_AT_LAST: Final = "frames_at_last"  # and those held out until the last part of a training
AT_LAST: Final = "learned_held_out_at_last"
JUDGED: Final = "judged"  # in a pack's run folder: the pack before that last part
_MOST_SHOTS: Final = 2000  # on a card; a training on more of them is told by its data sets' names alone

Frames = Mapping[str, Mapping[str, str]]


def card_frames(data: Dataset, init: str | Path | None) -> dict[str, Frames]:
    """What a card says of the frames that a training on `data` from the pack `init` learns from."""
    known = _init_training(init)
    found = {
        FRAMES: _unite(known.get(FRAMES, {}), known.get(FRAMES_AT_LAST, {}), _frames(data, "train")),
        FRAMES_AT_LAST: _frames(data, "val"),
    }
    is_too_much = sum(len(shots) for each in found.values() for shots in each.values()) > _MOST_SHOTS
    return {} if is_too_much else found


def _init_training(init: str | Path | None) -> Mapping[str, Any]:
    """The training on the card of the pack that another one starts from; empty where there is none."""
    try:
        training = load_card(find_pack(init)).get("training") if init != "none" else None
    except PackError:
        return {}
    return training if isinstance(training, Mapping) else {}


def _frames(data: Dataset, split: Split) -> Frames:
    return _by_shot([sample for sample in data.samples if sample.split == split])


def _by_shot(samples: Sequence[Sample]) -> Frames:
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        found[sample.character][sample.shot].append(sample.frame)
    return {character: {shot: summarise(own) for shot, own in shots.items()} for character, shots in found.items()}


def _unite(*parts: Frames) -> Frames:
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        for character, shot, frame in _each(part):
            found[character][shot].append(frame)
    return {character: {shot: summarise(own) for shot, own in shots.items()} for character, shots in found.items()}


def _each(frames: Any) -> Iterator[tuple[str, str, int]]:
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
    learned = [s for s in measured.samples if (s.character, s.shot, s.frame) in known]
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
