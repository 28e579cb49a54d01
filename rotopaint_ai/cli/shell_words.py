"""Restoring a plate's pattern from the file names to which a shell has expanded it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path

from rotopaint_ai.frames import summarise


def join_files(words: Sequence[str], *, has_frames: bool) -> list[str]:
    """The words with a plate's files (`plate.*.exr` expanded by a shell) replaced by its pattern.

    Where they are some of a plate's frames, and the command `has_frames`, `--frames` is added.
    """
    at = next((at for at, pair in enumerate(pairwise(words)) if _are_of_one_sequence(*pair)), None)
    if at is None:
        return list(words)
    from rotopaint_ai.plates.sequence import find

    listing, alike = find(words[at]), list(takewhile(partial(_are_of_one_sequence, words[at]), words[at:]))
    frames = {str(path): frame for frame, path in listing.paths.items()}
    named = {frames[name] for file in alike if (name := str(Path(file))) in frames}
    if len(named) < 2:  # movies
        return list(words)
    has_range = any(word.partition("=")[0] == "--frames" for word in words)
    is_part = has_frames and not has_range and named != set(listing.paths)
    pattern = str(listing.folder / f"{listing.prefix}{'#' * max(1, listing.padding)}{listing.suffix}")
    more = ["--frames", summarise(named).replace(" ", "")] if is_part else []
    return [*words[:at], pattern, *words[at + len(alike) :], *more]


def _are_of_one_sequence(one: str, other: str) -> bool:
    """Whether two words are, by their names, files of one sequence."""
    return _stem(one) == _stem(other) and os.path.isfile(one) and os.path.isfile(other)


def _stem(file: str) -> str:
    """A file's name with its frame number replaced by a mark."""
    return re.sub(r"\d+(?=\D*$)", "#", file)
