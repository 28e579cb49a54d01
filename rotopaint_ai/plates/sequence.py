"""Finding the files of a plate by names and frame numbers; no file is opened here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rotopaint_ai.errors import MissingFrameError, UsageError
from rotopaint_ai.frames import MOST_FRAMES, summarise
from rotopaint_ai.plates.kinds import MOVIE_SUFFIXES, PLATE_SUFFIXES

# The frame number is the last run of digits of the stem; a version such as `_v012` is not a frame number.
_NUMBERED = re.compile(r"^(?P<prefix>.*?)(?P<number>(?:(?<=[._ ])-)?(?<!\d)\d{1,9})$", re.DOTALL)
_VERSION = re.compile(r"(?:^|[._ -])[vV]$")
_PLACEHOLDER = re.compile(r"(?P<hashes>#+)|(?P<ats>@+)|%(?P<printf>0?\d*)d|\$F(?P<houdini>\d*)")
_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one plate.

    `prefix` is the file name before the frame number. `paths` maps frame numbers to files; a still without a number
    in its name is frame 1. `padding` is the number of digits to which frame numbers are padded with zeros, 0 without
    padding. `named_frame`: the frame whose file was given as the source, if one was.
    """

    folder: Path
    prefix: str
    suffix: str
    padding: int
    paths: Mapping[int, Path] = field(repr=False)
    named_frame: int | None = None

    @property
    def name(self) -> str:
        """The plate's name: the prefix without its separator, or the folder's name where files are bare numbers."""
        return self.prefix.rstrip("._- ") or self.folder.resolve().name or "plate"

    @property
    def frames(self) -> tuple[int, ...]:
        """Frame numbers on disk, ascending."""
        return tuple(sorted(self.paths))

    @property
    def missing(self) -> tuple[int, ...]:
        """Missing frames between the first and the last. Raises UsageError where a stray number makes a huge gap."""

        frames = self.frames
        if len(frames) < 2 or frames[-1] - frames[0] + 1 == len(frames):
            return ()
        if frames[-1] - frames[0] >= MOST_FRAMES:
            raise UsageError(
                f"{self.name}: frames {frames[0]} to {frames[-1]} lie too far apart for one shot; say --frames A-B, or "
                "move the stray files away"
            )
        return tuple(frame for frame in range(frames[0], frames[-1] + 1) if frame not in self.paths)

    @property
    def samples(self) -> tuple[int, ...]:
        """Frames whose headers tell the plate's kind and size, the best first: `named_frame`, then the first few."""
        first = self.frames[:_SAMPLES]
        return first if self.named_frame is None else (self.named_frame, *first)

    def path_of(self, frame: int) -> Path:
        """The file of `frame`. Raises MissingFrameError, which names the expected file."""
        found = self.paths.get(frame)
        if found is None:
            wanted = f"{self.prefix}{pad(frame, self.padding)}{self.suffix}"
            have = summarise(self.paths)
            raise MissingFrameError(f"{wanted}: frame {frame} is not on disk (found {have}); render it or leave it out")
        return found


def pad(frame: int, padding: int) -> str:
    """`frame` as text in a file name: pad(7, 4) is `0007`, pad(-7, 4) is `-0007`."""
    return f"{'-' if frame < 0 else ''}{abs(frame):0{max(padding, 1)}d}"


def find(source: str | Path) -> Listing:
    """The files of `source`, which is a pattern, a folder, one frame of a sequence, a still or a movie.

    Raises: UsageError where no plate, or more than one, matches, or where the path may not be read.
    """
    try:
        return _find_listing(Path(source))
    except PermissionError as error:
        raise UsageError(f"{source}: may not be read; change its permissions, or choose another path") from error


def _find_listing(path: Path) -> Listing:
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return _of_file(path)
    if path.exists():  # opening a pipe may block for ever
        raise UsageError(f"{path}: is a pipe or a device; wanted frames, a folder or a movie")
    pattern = _pattern_listing(path)
    if pattern is not None:
        return pattern
    raise _absent(path)


def _of_file(path: Path) -> Listing:
    split = _split_name(path.name)
    if path.suffix.lower() in MOVIE_SUFFIXES:
        return _still_listing(path)
    if split is None:
        return replace(_still_listing(path), named_frame=1)
    prefix, number, suffix = split
    digits = number.lstrip("-")
    padding = len(digits) if digits.startswith("0") else 0
    group = _numbered_groups(path.parent).get((prefix, suffix), {number: path})
    if padding == 0:
        others = {len(text.lstrip("-")) for text in group if text.lstrip("-").startswith("0")}
        padding = max((width for width in others if width <= len(digits)), default=0)
    kept = {int(text): file for text, file in group.items() if _has_padding(text, padding)}
    return Listing(path.parent, prefix, suffix, padding or _shortest(kept), kept, int(number))


def _still_listing(path: Path) -> Listing:
    return Listing(path.parent, path.stem, path.suffix, 0, {1: path})


def _in_folder(folder: Path) -> Listing:
    groups = {key: files for key, files in _numbered_groups(folder).items() if key[1].lower() in PLATE_SUFFIXES}
    singles = [p for p in _sorted_files(folder) if p.suffix.lower() in PLATE_SUFFIXES and _split_name(p.name) is None]
    movies = [p for p in _sorted_files(folder) if p.suffix.lower() in MOVIE_SUFFIXES]
    sequences = [files for files in groups.values() if len(files) > 1]
    candidates = sequences or list(groups.values())
    if len(candidates) == 1 and (sequences or not singles + movies):
        return replace(_of_file(next(iter(candidates[0].values()))), named_frame=None)
    if not candidates and len(singles + movies) == 1:
        return _still_listing((singles + movies)[0])
    names = sorted([f"{prefix}{'#' * 4}{suffix}" for prefix, suffix in groups] + [p.name for p in singles + movies])
    if not names:
        raise UsageError(f"{folder}: no plate in this folder; wanted frames such as plate.1001.exr, or a movie")
    shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    raise UsageError(f"{folder}: {len(names)} plates in this folder ({shown}); name one of them, such as {names[0]}")


def _pattern_listing(path: Path) -> Listing | None:
    matches = list(_PLACEHOLDER.finditer(path.name))
    if not matches:
        return _match_star(path)
    readings = [_matching_files(path, match) for match in matches]  # a name may hold a # of its own
    fitting = [listing for listing in readings if listing.paths]
    if len(fitting) == 1:
        return fitting[0]
    if len(matches) > 1:
        raise UsageError(f"{path.name}: more than one place for a frame number; wanted one, such as plate.####.exr")
    raise UsageError(f"{path}: no file matches this pattern; check the folder, the name and the number of digits")


def _matching_files(path: Path, place: re.Match[str]) -> Listing:
    """The files whose frame numbers stand at `place` of the pattern; perhaps none."""
    prefix, rest = path.name[: place.start()], path.name[place.end() :]
    padding = _pattern_padding(place)
    wanted = re.compile(re.escape(prefix) + r"(-?\d{1,9})" + re.escape(rest))
    found = {m[1]: file for file in _sorted_files(path.parent) if (m := wanted.fullmatch(file.name))}
    kept = {int(text): file for text, file in found.items() if _has_padding(text, padding)}
    return Listing(path.parent, prefix, rest, padding, kept)


def _match_star(path: Path) -> Listing | None:
    """The sequence of a shell pattern such as `plate.*.exr`, where the star is the frame number."""
    if path.name.count("*") != 1:
        return None
    wanted = re.compile(re.escape(path.name).replace(r"\*", r"-?\d{1,9}"))
    found = sorted(file for file in _sorted_files(path.parent) if wanted.fullmatch(file.name))
    if not found:
        raise UsageError(f"{path}: no file matches this pattern; check the folder and the name")
    return replace(_of_file(found[0]), named_frame=None)


def _pattern_padding(match: re.Match[str]) -> int:
    if match["hashes"] or match["ats"]:
        return len(match[0]) if len(match[0]) > 1 else 0
    return int(match["printf"] or match["houdini"] or 0)


def _has_padding(number: str, padding: int) -> bool:
    """Whether the digits of a frame number are padded to exactly `padding` digits."""
    return number == pad(int(number), padding)


def _shortest(paths: Mapping[int, Path]) -> int:
    lengths = {len(str(abs(frame))) for frame in paths}
    return lengths.pop() if len(lengths) == 1 else 0


def _split_name(name: str) -> tuple[str, str, str] | None:
    stem, suffix = os.path.splitext(name)
    match = _NUMBERED.match(stem)
    if match is None or _VERSION.search(match["prefix"]):
        return None
    return match["prefix"], match["number"], suffix


def _numbered_groups(folder: Path) -> dict[tuple[str, str], dict[str, Path]]:
    groups: dict[tuple[str, str], dict[str, Path]] = {}
    for file in _sorted_files(folder):
        split = _split_name(file.name)
        if split is not None:
            groups.setdefault((split[0], split[2]), {})[split[1]] = file
    return groups


def _sorted_files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.name[0] != "." and _is_plain_file(entry))
    except OSError as error:
        raise UsageError(f"{folder}: cannot list this folder ({error.strerror}); check the path") from error


def _is_plain_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # links in a circle
        return False


def _absent(path: Path) -> UsageError | MissingFrameError:
    split = _split_name(path.name)
    if split is not None and path.parent.is_dir():
        group = _numbered_groups(path.parent).get((split[0], split[2]), {})
        if group:
            have = summarise(int(text) for text in group)
            return MissingFrameError(f"{path.name}: not on disk; frames {have} of this plate are, name one of them")
    return UsageError(f"{path}: no such file or folder; check the path")
