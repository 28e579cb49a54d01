"""The index of a sharded data set: which tar holds which picture, where in it, and what each tar must hash to.

    DIR/shards/index.json   {"format": "rotopaint-shards", "version": 1, "shards": [{"name": "000000.tar", "bytes",
                            "sha256", "members": {"images/x.jpg": [offset, size], ...}}, ...]}
    DIR/shards/000000.tar   00000000.jpg, 00000000.json, 00000001.jpg, ...: what WebDataset reads, with no index

`dataset.json`, `sheet.yaml` and `samples.jsonl` stand beside `shards/` as in any data set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rotopaint_ai.errors import TrainingError

FORMAT = "rotopaint-shards"
VERSION = 1
FOLDER = "shards"
INDEX = f"{FOLDER}/index.json"


@dataclass(frozen=True, slots=True)
class Shard:
    """One tar: its name, size, hash, and where each picture's bytes lie in it (offset, size)."""

    name: str
    n_bytes: int
    sha256: str
    members: Mapping[str, tuple[int, int]]

    def row(self) -> dict[str, Any]:
        """The shard as the index tells of it."""
        return {"name": self.name, "bytes": self.n_bytes, "sha256": self.sha256, "members": dict(self.members)}


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
        return Index(tuple(_shard(row) for row in content["shards"]))
    except (ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{where}: cannot be read as an index ({error}); pack the data set again") from error


def _shard(row: Any) -> Shard:
    name, n_bytes = str(row["name"]), int(row["bytes"])
    if "/" in name or "\\" in name or name.startswith("."):
        raise ValueError(f"shard name '{name}' leaves the folder")
    members = {str(key): (int(place[0]), int(place[1])) for key, place in row["members"].items()}
    for key, (offset, size) in members.items():
        if offset < 0 or size < 0 or offset + size > n_bytes:
            raise ValueError(f"'{key}' lies outside its shard")
    return Shard(name, n_bytes, str(row["sha256"]), members)
