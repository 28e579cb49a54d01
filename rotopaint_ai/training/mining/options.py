"""The options of `mine`, validated when read, and the kinds of label issues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.frames import FrameRange

TOLERANCE_PX = 0.25
ALL_KINDS = "suspicious"
ALL = "all"  # all shots
HARMLESS = ("twisted", "held", "outside")  # corrected automatically, or valid labels
# Steps in order, with their share of the time in percent (120 frames of 10 shapes, two cores).
STAGES: Final[Mapping[str, float]] = {
    "reading roto": 21,
    "aligning shapes": 17,
    "fitting splines": 36,
    "measuring residuals": 9,
    "cutting pictures": 4,
    "checking labels": 13,
}


ShotKey = tuple[str, str]  # character and shot name
HELD_OUT = 0.1  # smallest share of a character's frames in validation shots
SIZE = 400  # side of a picture in pixels
KINDS: Final = ("swapped", "jumped", "misfit", "twisted", "shifted", "held", "outside")
FACE_SHARE = 0.62  # face box relative to the picture


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Frames to leave out of the data set: frames of shots, whole shots (None), and kinds of suspicious frames."""

    frames: tuple[tuple[str, FrameRange | None], ...] = ()
    kinds: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Exclusion:
        """Parse `--exclude` arguments. Raises UsageError.

        An argument has comma-separated items: `SHOT`, `SHOT:A-B`, a kind (`swapped`), or `suspicious` for all harmful
        kinds. `@FILE` reads one argument a line (`#` starts a comment).
        """
        frames: list[tuple[str, FrameRange | None]] = []
        kinds: set[str] = set()
        for item in (part.strip() for text in texts for line in _argument_texts(text) for part in line.split(",")):
            if item == ALL_KINDS:
                kinds |= set(KINDS) - set(HARMLESS)
            elif item in KINDS:
                kinds.add(item)
            elif ":" in item:
                shot, _, numbers = item.rpartition(":")
                frames.append((shot, FrameRange.parse(numbers)))
            elif item:
                frames.append((item, None))
        return cls(tuple(frames), frozenset(kinds))

    def covers(self, shot: str, frame: int) -> bool:
        """Whether a frame is excluded by shot or number."""
        return any(shot == name and (span is None or frame in span) for name, span in self.frames)

    def idle(self, frames: Set[tuple[str, int]]) -> list[str]:
        """A line for each range of frames that covers none of the shots' frames."""
        return [
            f"--exclude {shot}:{span}: covers no frame of {shot}"
            for shot, span in self.frames
            if span is not None and not any(name == shot and frame in span for name, frame in frames)
        ]

    def check(self, shots: Sequence[str]) -> None:
        """Raises UsageError if a named shot is not among those found."""
        for name, _ in self.frames:
            if name not in shots:
                raise UsageError(
                    f"--exclude {name}: no such shot or kind; shots are {', '.join(sorted(set(shots)))}, kinds "
                    f"{', '.join(KINDS)}, {ALL_KINDS}"
                )


def _argument_texts(text: str) -> list[str]:
    if not text.startswith("@"):
        return [text]
    try:
        content = file_bytes(Path(text[1:])).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--exclude {text}: the file cannot be read ({error}); wanted lines such as shot010:1001-1004"
        ) from error
    return [line.partition("#")[0] for line in content.splitlines()]


def choose_tests(shots: Sequence[str], wanted: Sequence[str]) -> set[str]:
    """Test shots: those wanted, or `all`. Raises UsageError for an unknown shot."""
    for name in wanted:
        if name not in (*shots, ALL):
            raise UsageError(f"--test {name}: no such shot; shots are {', '.join(sorted(set(shots)))}, {ALL}")
    return set(shots) if ALL in wanted else set(wanted)


@dataclass(frozen=True, slots=True)
class ShotContent:
    """The content of a shot: the number of frames, and the names of their shapes and landmarks."""

    n_frames: int
    names: Set[str]
    has_shapes: bool = True


def choose_val(shots: Mapping[ShotKey, ShotContent], wanted: Sequence[str]) -> set[ShotKey]:
    """Choose the validation shots: those wanted; none for `none`; else by these rules.

    The last shots of each character with two or more shots, up to a tenth of its frames. A shot qualifies only if other
    shots have its shapes and landmarks too. A shot without shapes cannot measure shapes, so it qualifies only if the
    character has none.
    Raises UsageError for an unknown shot, or if nothing would be left to train on.
    """
    if not shots:
        return set()
    names = {shot for _, shot in shots}
    asked = [name for name in wanted if name != "none"]
    for name in asked:
        if name not in names:
            raise UsageError(f"--val {name}: no such shot; shots are {', '.join(sorted(names))}")
    held = {pair for pair in shots if pair[1] in asked} if wanted else _last_of_each(shots)
    if len(held) == len(shots):
        raise UsageError("--val: every shot is a validation shot; leave one to train on")
    return held


def _last_of_each(shots: Mapping[ShotKey, ShotContent]) -> set[ShotKey]:
    held: set[ShotKey] = set()
    users = Counter(name for content in shots.values() for name in content.names)  # remaining shots that have each name
    for character in dict.fromkeys(character for character, _ in shots):
        own = sorted((pair for pair in shots if pair[0] == character), reverse=True)
        drawn = any(shots[pair].has_shapes for pair in own)
        total, taken = sum(shots[pair].n_frames for pair in own), 0
        for pair in own if len(own) > 1 else ():
            content = shots[pair]
            is_too_much = taken > 0 and 2 * (taken + content.n_frames) > total
            lacks_shapes = drawn and not content.has_shapes
            if is_too_much or lacks_shapes or any(users[name] == 1 for name in content.names):
                continue
            held.add(pair)
            users.subtract(content.names)
            taken += content.n_frames
            if taken >= HELD_OUT * total:
                break
    return held


@dataclass(frozen=True, slots=True)
class MineOptions:
    """What to mine.

    `plates` may contain `{dir}` and `{stem}`. `val`: validation shots (`none` for none). `test`: test shots (`all` for
    all). `interpolated`: frames between keys count as ground truth too. `overwrite`: also
    over a data set of other sources.
    """

    sources: tuple[Path, ...]
    out: Path
    plates: str | None = None
    sheet: Path | None = None
    character: str | None = None
    name: str | None = None
    licence: str = "not stated"
    size: int = SIZE
    face_share: float = FACE_SHARE
    tolerance_px: float = TOLERANCE_PX
    val: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    exclude: Exclusion = field(default_factory=Exclusion)
    renames: Mapping[str, str] = field(default_factory=dict)
    interpolated: bool = False
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class LabelIssue:
    """A label issue: row of the frame, kind, name of the shape or landmark, and a sentence."""

    row: int
    kind: str
    about: str
    text: str
