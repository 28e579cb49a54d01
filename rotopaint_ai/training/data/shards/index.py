"""The index of a sharded data set: which tar holds which picture, where in it, and what each tar must hash to.

    DIR/shards/index.json   {"format": "rotopaint-shards", "version": 1, "shards": [{"name": "000000.tar", "bytes",
                            "sha256", "members": {"images/x.jpg": [offset, size, crc32], ...}}, ...]}
    DIR/shards/000000.tar   00000000.jpg, 00000000.json, 00000001.jpg, ...: what WebDataset reads, with no index

`dataset.json`, `sheet.yaml` and `samples.jsonl` stand beside `shards/` as in any data set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rotopaint_ai.errors import TrainingError

FORMAT = "rotopaint-shards"
VERSION = 1
FOLDER = "shards"
INDEX = f"{FOLDER}/index.json"
MOST_BYTES = 64 << 30  # of a shard
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Member(NamedTuple):
    """Where a picture's bytes lie in its shard, and their CRC-32; an index of an older version has none."""

    offset: int
    size: int
    crc32: int | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """One tar: its name, size, hash, and where each picture's bytes lie in it."""

    name: str
    n_bytes: int
    sha256: str
    members: Mapping[str, Member]

    def row(self) -> dict[str, Any]:
        """The shard as the index tells of it."""
        places = {name: list(member) for name, member in self.members.items()}
        return {"name": self.name, "bytes": self.n_bytes, "sha256": self.sha256, "members": places}


@dataclass(frozen=True, slots=True)
class Index:
    """All shards of a data set, and the shard of every picture."""

    shards: tuple[Shard, ...]

    def places(self) -> dict[str, int]:
        """Picture -> number of its shard."""
        return {name: number for number, shard in enumerate(self.shards) for name in shard.members}

    def dump(self) -> str:
        """The index as JSON text."""
        return json.dumps({"format": FORMAT, "version": VERSION, "shards": [s.row() for s in self.shards]}) + "\n"


def parse_index(text: bytes | str, where: str) -> Index:
    """Read an index. Raises TrainingError naming what is wrong with it."""
    try:
        content = json.loads(text)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise TrainingError(f"{where}: wanted format '{FORMAT}' version {VERSION}; pack the data set again")
        shards = tuple(_shard(row) for row in content["shards"])
        if len({shard.name for shard in shards}) < len(shards):
            raise ValueError("two shards have one name")
        return Index(shards)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise TrainingError(f"{where}: cannot be read as an index ({error}); pack the data set again") from error


def _shard(row: Any) -> Shard:
    """A shard as the index tells of it: its name and hash become names of files, so they are checked as such."""
    name, n_bytes, sha256 = str(row["name"]), int(row["bytes"]), str(row["sha256"])
    if not _NAME.fullmatch(name):
        raise ValueError(f"shard name {name[:60]!r} is no plain name of a file")
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"the sha256 of {name} is {sha256[:60]!r}; wanted 64 hexadecimal digits")
    if not 0 < n_bytes <= MOST_BYTES:
        raise ValueError(f"{name} has {n_bytes:,} bytes; wanted 1 to {MOST_BYTES:,}")
    members = {str(key): Member(*(int(value) for value in place[:3])) for key, place in row["members"].items()}
    for key, member in members.items():
        if member.offset < 0 or member.size < 0 or member.offset + member.size > n_bytes:
            raise ValueError(f"'{key}' lies outside its shard")
    return Shard(name, n_bytes, sha256, members)
