"""Shards: the index says which tar holds which picture; tars lie on disk, or come from a server into a local cache.

    DIR/shards/index.json   {"format": "rotopaint-shards", "version": 1, "shards": [{"name": "000000.tar", "bytes",
                            "sha256", "members": {"images/x.jpg": [offset, size, crc32], ...}}, ...]}; of a picture in
                            a clip [offset, size, crc32, number in the clip, width, height]
    DIR/shards/000000.tar   00000000.jpg, 00000000.json, 00000001.jpg, ...: what WebDataset reads, with no index; clips
                            are 00000000.mp4, and 00000000.jsonl with a line for each picture

`dataset.json`, `sheet.yaml` and `samples.jsonl` stand beside `shards/` as in any data set.

What comes from a server (`https://`, `s3://bucket/prefix`) is kept only if its size and hash are those of the index. A
slow, broken or lying server is asked again a few times, with growing pauses, and then named in one line; what has come
stays for the next start. An answer is bounded in size, and in time by the slowest rate that is waited for.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import file_bytes, replacing, user_cache
from rotopaint_ai.training.data.shards.stream import Producer

FORMAT = "rotopaint-shards"
VERSION = 1
FOLDER = "shards"
INDEX = f"{FOLDER}/index.json"
MOST_BYTES = 64 << 30  # of a shard
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Member(NamedTuple):
    """Where a picture's bytes lie in its shard, and their CRC-32.

    `number`: of the picture in the clip that lies there, and its size; None where the bytes are a picture's own.
    """

    offset: int
    size: int
    crc32: int
    number: int | None = None
    width: int = 0
    height: int = 0

    def row(self) -> Sequence[int | None]:
        """The member as the index tells of it."""
        return self[:3] if self.number is None else self


@dataclass(frozen=True, slots=True)
class Shard:
    """One tar: its name, size, hash, and where each picture's bytes lie in it."""

    name: str
    n_bytes: int
    sha256: str
    members: Mapping[str, Member]

    def row(self) -> dict[str, Any]:
        """The shard as the index tells of it."""
        places = {name: member.row() for name, member in self.members.items()}
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
    members = {str(key): Member(*(int(value) for value in place[:6])) for key, place in row["members"].items()}
    for key, member in members.items():
        if member.offset < 0 or member.size < 0 or member.offset + member.size > n_bytes:
            raise ValueError(f"'{key}' lies outside its shard")
        if member.number is not None and min(member.number, member.width - 1, member.height - 1) < 0:
            raise ValueError(f"'{key}' has no place or size in its clip")
    return Shard(name, n_bytes, sha256, members)


TRIES = 4
PAUSE_S = 0.5
TIMEOUT_S = 20.0
CACHE_BYTES = 50e9
BLOCK = 1 << 16
_TICK_S = 0.1  # how often somebody who waits for a block is asked whether to go on
MOST_TEXT = 256 << 20  # bytes of an index or of samples.jsonl
GRACE_S, SLOWEST = 30.0, 16e3  # an answer may take so long, and a second more for so many bytes
Fetch = Callable[[str], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Folder:
    """Shards on a local or network disk."""

    path: Path

    def read(self, name: str) -> bytes:
        """A small file of the data set. Raises TrainingError."""
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
        """The shards; None where the pictures are single files. Raises TrainingError."""
        return parse_index(self.read(INDEX), str(self.path / INDEX)) if (self.path / INDEX).is_file() else None

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """A local file that holds a shard, if it is whole. Raises TrainingError."""
        path = self.path / FOLDER / shard.name
        size = path.stat().st_size if path.is_file() else None
        if size != shard.n_bytes:
            raise TrainingError(
                f"{path}: {'is missing' if size is None else f'has {size:,} bytes'}, the index says {shard.n_bytes:,}; "
                "copy it again"
            )
        return path


@dataclass(frozen=True, slots=True)
class Server:
    """Shards on a server. `fetch` gives an object's bytes by its URL; `pause_s` is the first of the growing pauses,
    `grace_s` how long an answer may take beside the time that its bytes need."""

    url: str
    cache: Path
    fetch: Fetch
    limit_bytes: float = CACHE_BYTES
    pause_s: float = PAUSE_S
    grace_s: float = GRACE_S

    def read(self, name: str) -> bytes:
        """A small file of the data set; asked for anew each time, it may have changed. Raises TrainingError."""
        return bytes(self._persistently(f"{self.url}/{name}", lambda url: b"".join(self._blocks(url, MOST_TEXT))))

    def index(self) -> Index:
        """The index; a data set on a server is always in shards."""
        return parse_index(self.read(INDEX), f"{self.url}/{INDEX}")

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """The shard in the cache, fetched if it is not there whole; processes on one machine fetch it once.

        `check` is called now and then and may raise to stop. Raises TrainingError.
        """
        path = self.cache / f"{shard.sha256[:32]}.tar"
        if shard.n_bytes > self.limit_bytes:
            raise TrainingError(
                f"{self.url}/{FOLDER}/{shard.name}: has {shard.n_bytes:,} bytes, the cache holds "
                f"{self.limit_bytes:,.0f}; pack the data set in smaller shards"
            )
        self.cache.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            with suppress(FileNotFoundError):  # somebody else who reads from here may need its room at any moment
                if path.is_file() and _sha256(path) == shard.sha256:  # once in each process that reads it
                    os.utime(path)
                    return path
            self._make_room(shard.n_bytes)
            self._persistently(f"{self.url}/{FOLDER}/{shard.name}", lambda url: self._download(url, shard, path, check))
        return path

    def _download(self, url: str, shard: Shard, path: Path, check: Callable[[], None]) -> None:
        sha, n_bytes = hashlib.sha256(), 0
        with replacing(path) as beside, beside.open("wb") as stream:
            for block in self._blocks(url, shard.n_bytes, check):
                sha.update(block)
                n_bytes += len(block)
                stream.write(block)
            if n_bytes != shard.n_bytes:
                raise OSError(f"got {n_bytes:,} of {shard.n_bytes:,} bytes")
            if sha.hexdigest() != shard.sha256:
                raise OSError("the bytes are not those of the index")

    def _blocks(self, url: str, most: int, check: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """An answer's bytes. Raises OSError for one that has more than `most` of them, or that comes too slowly."""
        begin, n_bytes = time.monotonic(), 0
        for block in _fetch_beside(self.fetch(url)):
            check()
            n_bytes += len(block)
            if n_bytes > most:
                raise OSError(f"sends more than the {most:,} bytes that it may")
            if time.monotonic() - begin > self.grace_s + n_bytes / SLOWEST:
                raise OSError(f"sent only {n_bytes:,} bytes in {time.monotonic() - begin:.0f} s")
            yield block

    def _persistently(self, url: str, act: Callable[[str], Any]) -> Any:
        reason: OSError | None = None
        for attempt in range(TRIES):
            if attempt:
                time.sleep(self.pause_s * 2 ** (attempt - 1))
            try:
                return act(url)
            except OSError as error:
                if error.errno in (28, 122):  # no space, quota: asking again helps nothing
                    raise TrainingError(f"{self.cache}: {error.strerror}; make room, or set ROTOPAINT_CACHE") from error
                reason = error
        text = " ".join(str(reason).split())
        raise TrainingError(f"{url}: {text} ({TRIES} tries); check the server and start again, what came is kept")

    def _make_room(self, n_bytes: int) -> None:
        """Remove the shards that were used longest ago."""
        kept: list[tuple[float, int, Path]] = []
        for path in self.cache.glob("[!.]*.tar"):
            with suppress(FileNotFoundError):  # others make room, too
                facts = path.stat()
                kept.append((facts.st_mtime, facts.st_size, path))
        total = float(n_bytes)
        for _, size, path in sorted(kept, reverse=True):
            total += size
            if total > self.limit_bytes:
                path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


ShardStore = Folder | Server


def open_store(source: str | Path) -> ShardStore:
    """The store of a data set by folder or URL. Raises TrainingError for a kind of URL that is not known."""
    text = str(source)
    if "://" not in text:
        return Folder(Path(source))
    kind = text.split("://", 1)[0]
    if kind not in ("http", "https", "s3"):
        raise TrainingError(f"{text}: wanted a folder, https://..., or s3://bucket/prefix")
    name = hashlib.sha256(text.rstrip("/").encode()).hexdigest()[:12]
    fetch = _fetch_s3 if kind == "s3" else _fetch_http
    return Server(text.rstrip("/"), cache_folder() / "shards" / name, fetch, pause_s=PAUSE_S)


def cache_folder() -> Path:
    """Where this product keeps what can be fetched again: `$ROTOPAINT_CACHE`, or the user's cache."""
    given = os.environ.get("ROTOPAINT_CACHE")
    return Path(given) if given else user_cache()


def _fetch_http(url: str) -> Iterator[bytes]:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=TIMEOUT_S) as answer:
            while block := answer.read1(BLOCK):
                yield block
    except (HTTPException, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _fetch_s3(url: str) -> Iterator[bytes]:
    """An object by `s3://bucket/key`; keys, region and endpoint are those of the AWS environment."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise TrainingError("s3:// needs boto3; install it with: pip install 'rotopaint-ai[cloud]'") from error
    bucket, _, key = url.removeprefix("s3://").partition("/")
    config = Config(connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1})
    try:
        body = boto3.client("s3", config=config).get_object(Bucket=bucket, Key=key)["Body"]
        yield from body.iter_chunks(BLOCK)
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from error


def _fetch_beside(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks as another thread gets them, and an empty one now and then while none comes."""
    producer = Producer(blocks, 16, "fetch")
    try:
        while True:
            try:
                block = producer.take(_TICK_S)
            except queue.Empty:
                block = b""
            except StopIteration:
                return
            yield block
    finally:
        producer.stop()
