"""What a shell has made of a plate's pattern, as the pattern again."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import dropwhile, takewhile
from pathlib import Path

from rotopaint_ai.frames import summarise


def join_files(words: Sequence[str], *, has_frames: bool) -> list[str]:
    """The words with a plate's files, as a shell makes them of `plate.*.exr`, as its pattern again.

    Where they are some of a plate's frames, and the command `has_frames`, `--frames` is added.
    """
    files = list(takewhile(os.path.isfile, dropwhile(lambda word: not os.path.isfile(word), words)))
    alike = [file for file in files if _stem(file) == _stem(files[0])]
    if len(alike) < 2:
        return list(words)
    from rotopaint_ai.plates.sequence import find

    listing, at = find(alike[0]), list(words).index(alike[0])
    frames = {str(path): frame for frame, path in listing.paths.items()}
    named = {frames[name] for file in alike if (name := str(Path(file))) in frames}
    is_part = has_frames and "--frames" not in words and named != set(listing.paths)
    pattern = str(listing.folder / f"{listing.prefix}{'#' * max(1, listing.padding)}{listing.suffix}")
    more = ["--frames", summarise(named).replace(" ", "")] if is_part else []
    return [*words[:at], pattern, *words[at + len(alike) :], *more]


def _stem(file: str) -> str:
    """A file's name with one mark for the number of its frame."""
    return re.sub(r"\d+(?=\D*$)", "#", file)
