"""Files of a server (`https://`) or a store (`s3://bucket/prefix`, `gs://`, `az://`, ...) in a local cache.

A file is kept only if its size and hash are the expected ones. If a server is slow, broken or sends wrong bytes, the
request is repeated a few times with growing pauses; then the error names the server in one line. Complete files stay in
the cache for the next start. A response is limited in size, and in time by a lowest accepted rate.
"""

from __future__ import annotations

import hashlib
import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from rotopaint_ai.errors import ServerError
from rotopaint_ai.files import file_sha256, replacing, user_cache
from rotopaint_ai.producer import Producer

TRIES = 4
PAUSE_S = 0.5
TIMEOUT_S = 20.0
CACHE_BYTES = 50e9
BLOCK = 1 << 16
_RANGE = 1 << 22  # bytes requested from a store at a time
_TICK_S = 0.1  # how often `check` is called while a block is awaited
MOST_TEXT = 256 << 20  # largest index or samples.jsonl, bytes
GRACE_S, SLOWEST = 30.0, 16e3  # a response may take so many seconds, plus one second for so many bytes
Fetch = Callable[[str], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """Files under a URL.

    `fetch` returns the bytes of a URL. `pause_s`: the first of the growing pauses between tries. `grace_s`: seconds
    that a response may take in addition to the time for its bytes. `limit_bytes`: size of the cache.
    """

    url: str
    cache: Path
    fetch: Fetch
    limit_bytes: float = CACHE_BYTES
    pause_s: float = PAUSE_S
    grace_s: float = GRACE_S

    def read(self, name: str) -> bytes:
        """The bytes of a small file. It is fetched each time, because it may have changed. Raises ServerError."""
        return bytes(self._persistently(f"{self.url}/{name}", lambda url: b"".join(self._blocks(url, MOST_TEXT))))

    def fetch_file(self, name: str, *, n_bytes: int, sha256: str, check: Callable[[], None] = lambda: None) -> Path:
        """The path of a large file in the cache, fetched where it is missing or incomplete.

        Several processes of one machine fetch it only once. `check` is called regularly and may raise to stop.
        Raises ServerError.
        """
        path = self.cache / f"{sha256[:32]}{Path(name).suffix}"
        self.cache.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            with suppress(FileNotFoundError):  # another process may delete it at any moment to make room
                if path.is_file() and file_sha256(path) == sha256:  # each process verifies it once
                    os.utime(path)
                    return path
            self._make_room(n_bytes, path.suffix)
            self._persistently(f"{self.url}/{name}", lambda url: self._download(url, path, n_bytes, sha256, check))
        return path

    def _download(self, url: str, path: Path, wanted: int, sha256: str, check: Callable[[], None]) -> None:
        sha, n_bytes = hashlib.sha256(), 0
        with replacing(path) as beside, beside.open("wb") as stream:
            for block in self._blocks(url, wanted, check):
                sha.update(block)
                n_bytes += len(block)
                stream.write(block)
            if n_bytes != wanted:
                raise OSError(f"got {n_bytes:,} of {wanted:,} bytes")
            if sha.hexdigest() != sha256:
                raise OSError("the bytes do not match the expected hash")

    def _blocks(self, url: str, most: int, check: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """The bytes of a response. Raises OSError where there are more than `most`, or where they arrive too slowly."""
        begin, n_bytes = time.monotonic(), 0
        for block in _fetch_beside(self.fetch(url)):
            check()
            n_bytes += len(block)
            if n_bytes > most:
                raise OSError(f"sends more than the {most:,} bytes expected")
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
                if error.errno in (28, 122):  # no space or quota: another try would not help
                    raise ServerError(f"{self.cache}: {error.strerror}; make room, or set ROTOPAINT_CACHE") from error
                reason = error
        text = " ".join(str(reason).split())
        raise ServerError(f"{url}: {text} ({TRIES} tries); check the server and start again, complete files are kept")

    def _make_room(self, n_bytes: int, suffix: str) -> None:
        """Remove the least recently used files."""
        kept: list[tuple[float, int, Path]] = []
        for path in self.cache.glob(f"[!.]*{suffix}"):
            with suppress(FileNotFoundError):  # other processes remove files too
                facts = path.stat()
                kept.append((facts.st_mtime, facts.st_size, path))
        total = float(n_bytes)
        for _, size, path in sorted(kept, reverse=True):
            total += size
            if total > self.limit_bytes:
                path.unlink(missing_ok=True)


Files = TypeVar("Files", bound=RemoteFiles)


def remote_files(kind: type[Files], url: str, room: str) -> Files:
    """Files under the URL of a server or a store, cached in the folder `room`."""
    name = hashlib.sha256(url.encode()).hexdigest()[:12]
    fetch = _fetch_http if url.startswith(("http:", "https:")) else _fetch_store
    return kind(url, cache_folder() / room / name, fetch, pause_s=PAUSE_S)


def cache_folder() -> Path:
    """This product's cache folder: `$ROTOPAINT_CACHE`, else a folder in the user's cache."""
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


def _fetch_store(url: str) -> Iterator[bytes]:
    """A file of a store, through a driver of `fsspec`; the driver finds keys, region and endpoint itself."""
    import fsspec

    try:
        files, path = fsspec.url_to_fs(url)
        with files.open(path, "rb", block_size=_RANGE) as stream:
            while block := stream.read(BLOCK):
                yield block
    except ImportError as error:
        install = "; pip install 'rotopaint-ai[cloud]'" if url.startswith("s3:") else " on this machine"
        raise ServerError(f"{url}: {error}{install}") from error
    except OSError:
        raise
    except Exception as error:  # errors of the drivers' own libraries
        raise OSError(f"{type(error).__name__}: {error}") from error


def _fetch_beside(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks, fetched by another thread; while none arrives, an empty block comes regularly."""
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
