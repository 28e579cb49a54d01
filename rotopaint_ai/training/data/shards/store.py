"""Where shards lie: a folder, or a server (`https://`, `s3://bucket/prefix`) with a cache on the local disk.

What comes from a server is kept only if its size and hash are those of the index. A slow, broken or lying server is
asked again a few times, with growing pauses, and then named in one line; what has come stays for the next start. An
answer is bounded in size, and in time by the slowest rate that is waited for.
"""

from __future__ import annotations

import hashlib
import os
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import replacing, user_cache
from rotopaint_ai.training.data.producer import Producer
from rotopaint_ai.training.data.shards.index import FOLDER, INDEX, Index, Shard, parse_index

TRIES = 4
PAUSE_S = 0.5
TIMEOUT_S = 20.0
CACHE_BYTES = 50e9
BLOCK = 1 << 16
MOST_TEXT = 256 << 20  # bytes of an index or of samples.jsonl
GRACE_S, SLOWEST = 30.0, 16e3  # an answer may take so long, and a second more for so many bytes
Fetch = Callable[[str], Iterator[bytes]]


class ShardStore(Protocol):
    """Hands out small files as bytes and shards as local files."""

    def read(self, name: str) -> bytes:
        """A small file. Raises TrainingError."""

    def index(self) -> Index | None:
        """The shards; None where the pictures are single files. Raises TrainingError."""

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """A local file that holds a shard; `check` may raise to stop fetching it. Raises TrainingError."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Shards on a local or network disk."""

    path: Path

    def read(self, name: str) -> bytes:
        """A small file of the data set."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            raise TrainingError(
                f"{self.path}: no {name}; wanted a data set's folder, made by `rotopaint mine`"
            ) from None
        except OSError as error:
            raise TrainingError(
                f"{self.path / name}: cannot be read ({error.strerror}); mine the data set again"
            ) from error

    def index(self) -> Index | None:
        """The index, where there is one."""
        return parse_index(self.read(INDEX), str(self.path / INDEX)) if (self.path / INDEX).is_file() else None

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """The shard itself, if it is whole."""
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
        """A small file of the data set; asked for anew each time, it may have changed."""
        return bytes(self._persistently(f"{self.url}/{name}", lambda url: b"".join(self._blocks(url, MOST_TEXT))))

    def index(self) -> Index:
        """The index; a data set on a server is always in shards."""
        return parse_index(self.read(INDEX), f"{self.url}/{INDEX}")

    def shard(self, shard: Shard, check: Callable[[], None] = lambda: None) -> Path:
        """The shard in the cache, fetched if it is not there; processes on one machine fetch it once."""
        path = self.cache / f"{shard.sha256[:32]}.tar"
        if shard.n_bytes > self.limit_bytes:
            raise TrainingError(
                f"{self.url}/{FOLDER}/{shard.name}: has {shard.n_bytes:,} bytes, the cache holds "
                f"{self.limit_bytes:,.0f}; pack the data set in smaller shards"
            )
        self.cache.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if path.is_file() and path.stat().st_size == shard.n_bytes:
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
        kept = sorted(self.cache.glob("[!.]*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
        total = float(n_bytes)
        for path in kept:
            total += path.stat().st_size
            if total > self.limit_bytes:
                path.unlink(missing_ok=True)


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


def _fetch_beside(blocks: Iterator[bytes], tick_s: float = 0.1) -> Iterator[bytes]:
    """The blocks as another thread gets them, and an empty one now and then while none comes."""
    producer = Producer(blocks, 16, "fetch")
    try:
        while True:
            try:
                block = producer.take(tick_s)
            except queue.Empty:
                block = b""
            except StopIteration:
                return
            yield block
    finally:
        producer.stop()
