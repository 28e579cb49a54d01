"""Shards: tars of pictures, on disk or on a server (`remote`), and the index of their contents.

    DIR/shards/index.json   {"format": "rotopaint-shards", "version": 1, "shards": [{"name": "000000.tar", "bytes",
                            "sha256", "members": {"images/x.jpg": [offset, size, crc32], ...}}, ...]}; for a picture in
                            a clip [offset, size, crc32, number in the clip, width, height]
    DIR/shards/000000.tar   00000000.jpg, 00000000.json, 00000001.jpg, ...: WebDataset reads this without the index;
                            clips are 00000000.mp4, and 00000000.jsonl with a line for each picture

`dataset.json`, `sheet.yaml` and `samples.jsonl` lie next to `shards/`, as in any data set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import fsspec
from msgspec import Meta, Struct

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.remote import RemoteFiles, remote_files
from rotopaint_ai.value_checks import check_json

FORMAT = "rotopaint-shards"
VERSION = 1
FOLDER = "shards"
INDEX = f"{FOLDER}/index.json"
MOST_BYTES = 64 << 30  # largest shard
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


_From0 = Annotated[int, Meta(ge=0)]


class Member(NamedTuple):
    """The position of a picture's bytes in its shard, and their CRC-32.

    `number`, `width`, `height`: the picture's index in a clip and its size; `number` is None if it has a file of its
    own.
    """

    offset: _From0
    size: _From0
    crc32: int
    number: _From0 | None = None
    width: _From0 = 0
    height: _From0 = 0

    def row(self) -> Sequence[int | None]:
        """The member as a row of the index."""
        return self[:3] if self.number is None else self


class Shard(Struct, frozen=True, rename={"n_bytes": "bytes"}):
    """One tar: its name, size, hash, and the position of each picture's bytes."""

    name: str
    n_bytes: Annotated[int, Meta(ge=1, le=MOST_BYTES)]
    sha256: str
    members: dict[str, Member]

    def row(self) -> dict[str, Any]:
        """The shard as an object of the index."""
        places = {name: member.row() for name, member in self.members.items()}
        return {"name": self.name, "bytes": self.n_bytes, "sha256": self.sha256, "members": places}


class _IndexFile(Struct):
    """The content of `index.json`."""

    format: Literal["rotopaint-shards"]
    version: Literal[1]
    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """All shards of a data set, and the shard of every picture."""

    shards: tuple[Shard, ...]

    def places(self) -> dict[str, int]:
        """The shard number of each picture."""
        return {name: number for number, shard in enumerate(self.shards) for name in shard.members}

    def dump(self) -> str:
        """The index as JSON text."""
        return json.dumps({"format": FORMAT, "version": VERSION, "shards": [s.row() for s in self.shards]}) + "\n"


def parse_index(text: bytes | str, where: str) -> Index:
    """Read an index. Raises TrainingError naming the fault."""
    try:
        shards = check_json(text, _IndexFile, error=TrainingError).shards
        for shard in shards:
            _check_shard(shard)
        if len({shard.name for shard in shards}) < len(shards):
            raise TrainingError("two shards have one name")
        return Index(shards)
    except TrainingError as error:
        raise TrainingError(f"{where}: {error}; pack the data set again") from error


def _check_shard(shard: Shard) -> None:
    """Raise TrainingError if a shard's name or hash is unsafe as a file name, or if a member lies outside the shard."""
    if not _NAME.fullmatch(shard.name):
        raise TrainingError(f"shard name {shard.name[:60]!r} is not a plain file name")
    if not _SHA256.fullmatch(shard.sha256):
        raise TrainingError(f"the sha256 of {shard.name} is {shard.sha256[:60]!r}; wanted 64 hexadecimal digits")
    for key, member in shard.members.items():
        if member.offset + member.size > shard.n_bytes:
            raise TrainingError(f"'{key}' lies outside its shard")
        if member.number is not None and not min(member.width, member.height):
            raise TrainingError(f"'{key}' has no size in its clip")


@dataclass(frozen=True, slots=True)
class Folder:
    """Shards on a local or network disk."""

    path: Path

    def read(self, name: str) -> bytes:
        """Read a small file of the data set. Raises TrainingError."""
        try:
            return file_bytes(self.path / name)
        except FileNotFoundError:
            raise TrainingError(
                f"{self.path}: no {name}; wanted a data set's folder, made by `rotopaint mine`"
            ) from None
        except OSError as error:
            raise TrainingError(
                f"{self.path / name}: cannot be read ({error.strerror}); mine the data set again"
            ) from error

    def index(self) -> Index | None:
        """The index; None if the pictures are single files. Raises TrainingError."""
        return parse_index(self.read(INDEX), str(self.path / INDEX)) if (self.path / INDEX).is_file() else None

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """The path of a shard. Raises TrainingError if it is missing or has another size."""
        path = self.path / FOLDER / shard.name
        size = path.stat().st_size if path.is_file() else None
        if size != shard.n_bytes:
            raise TrainingError(
                f"{path}: {'is missing' if size is None else f'has {size:,} bytes'}, the index says {shard.n_bytes:,}; "
                "copy it again"
            )
        return path


@dataclass(frozen=True, slots=True)
class Server(RemoteFiles):
    """Shards on a server."""

    def index(self) -> Index:
        """The index; a data set on a server is always in shards."""
        return parse_index(self.read(INDEX), f"{self.url}/{INDEX}")

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """The path of the shard in the cache, downloaded if necessary.

        `check` is called repeatedly and may raise to stop. Raises TrainingError.
        """
        if shard.n_bytes > self.limit_bytes:
            raise TrainingError(
                f"{self.url}/{FOLDER}/{shard.name}: has {shard.n_bytes:,} bytes, the cache holds "
                f"{self.limit_bytes:,.0f}; pack the data set in smaller shards"
            )
        return self.fetch_file(f"{FOLDER}/{shard.name}", n_bytes=shard.n_bytes, sha256=shard.sha256, check=check)


ShardStore = Folder | Server


def open_store(source: str | Path) -> ShardStore:
    """The store of a data set, given its folder or URL. Raises TrainingError for an unknown kind of URL."""
    text = str(source)
    if "://" not in text:
        return Folder(Path(source))
    if text.split("://", 1)[0] not in fsspec.available_protocols():
        raise TrainingError(
            f"{text}: wanted a folder, https://..., s3://bucket/prefix, or another URL that fsspec opens"
        )
    return remote_files(Server, text.rstrip("/"), "shards")
