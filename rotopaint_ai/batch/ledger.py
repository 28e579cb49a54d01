"""Who does which task, as small files on the disk that all workers share: no server, and nothing is done twice.

    <task>.claim      a worker is at it: its name and a token; the file's time is its heartbeat
    <task>.done       the task is done, and for which job
    <task>.failed     its attempts so far, with their reasons

A claim is made by creating the file, which one process can do (also on NFS). A claim whose heartbeat has stopped for
`LEASE_S` is taken away by renaming it, which again one process can do; times are compared with the disk's own clock.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.batch.written import is_there
from rotopaint_ai.files import write_json

LEASE_S = 60.0
BEATS_PER_LEASE = 6


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of a show. `lease_s` is how long a silent worker keeps its task."""

    folder: Path
    lease_s: float = LEASE_S

    def claim(self, task: BatchTask) -> Claim | None:
        """Take a task; None where it is done, or another worker is at it."""
        self._drop_stale(task)
        token = secrets.token_hex(8)
        path = self._entry_path(task, "claim")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"worker": worker_name(), "token": token})
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return None
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        claim = Claim(path, token, self.lease_s)
        if self.is_done(task):  # somebody finished between our look and our claim
            claim.release()
            return None
        return claim

    def holder(self, task: BatchTask) -> str | None:
        """The name of the worker that is at a task."""
        content = _read_entry(self._entry_path(task, "claim"))
        return None if content is None else str(content.get("worker", "a worker"))

    def is_done(self, task: BatchTask) -> bool:
        """Whether a task is done, for the job as it is now, and what it wrote is still there."""
        content = _read_entry(self._entry_path(task, "done"))
        return content is not None and content.get("fingerprint") == task.fingerprint and is_there(task, content)

    def finish(self, task: BatchTask, facts: Mapping[str, Any]) -> None:
        """Note that a task is done."""
        write_json(self._entry_path(task, "done"), {"fingerprint": task.fingerprint, "worker": worker_name(), **facts})
        self._entry_path(task, "failed").unlink(missing_ok=True)

    def facts(self, task: BatchTask) -> Mapping[str, Any]:
        """What was noted of a task that is done; empty where it is not."""
        return (_read_entry(self._entry_path(task, "done")) or {}) if self.is_done(task) else {}

    def fail(self, task: BatchTask, message: str) -> int:
        """Note a failed attempt; returns how many there were."""
        reasons = [*self.failures(task), message]
        write_json(self._entry_path(task, "failed"), {"fingerprint": task.fingerprint, "reasons": reasons})
        return len(reasons)

    def failures(self, task: BatchTask) -> list[str]:
        """The reasons of the failed attempts at a task, for the job as it is now."""
        content = _read_entry(self._entry_path(task, "failed")) or {}
        return list(content.get("reasons", [])) if content.get("fingerprint") == task.fingerprint else []

    def forgive(self, task: BatchTask) -> None:
        """Forget failed attempts: somebody has put the cause right."""
        self._entry_path(task, "failed").unlink(missing_ok=True)

    def has_given_up(self, task: BatchTask) -> bool:
        """Whether a task has failed as often as its shot allows."""
        return self.verdict(task) is not None

    def verdict(self, task: BatchTask) -> str | None:
        """Why a task was given up, one look at a file that others may delete meanwhile; None where it was not."""
        reasons = self.failures(task)
        return reasons[-1] if len(reasons) > task.shot.retries else None

    def _drop_stale(self, task: BatchTask) -> None:
        path = self._entry_path(task, "claim")
        try:
            silent_s = self._now() - path.stat().st_mtime
        except FileNotFoundError:
            return
        if silent_s > self.lease_s:
            aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            try:
                os.rename(path, aside)
            except FileNotFoundError:  # another worker was quicker
                return
            aside.unlink(missing_ok=True)

    def _now(self) -> float:
        """The time by the clock of the disk that holds the claims."""
        probe = self.folder / f".clock.{secrets.token_hex(4)}"
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def _entry_path(self, task: BatchTask, suffix: str) -> Path:
        return self.folder / f"{task.key}.{suffix}"


@dataclass(slots=True)
class Claim:
    """A task that is ours for as long as our heart beats; `is_lost` is called once when another worker took it."""

    path: Path
    token: str
    lease_s: float
    _stop: threading.Event = field(default_factory=threading.Event)

    def beat(self, lost: Any) -> threading.Thread:
        """Start the heartbeat; `lost()` is called, and the beating ends, when the claim is no longer ours."""

        def beating() -> None:
            while not self._stop.wait(self.lease_s / BEATS_PER_LEASE):
                try:
                    if not self.is_ours():
                        lost()
                        return
                    os.utime(self.path)
                except OSError:  # a network disk that is away for a moment; the next beat may be in time
                    continue

        thread = threading.Thread(target=beating, name="claim", daemon=True)
        thread.start()
        return thread

    def is_ours(self) -> bool:
        """Whether the claim on disk is still this one."""
        content = _read_entry(self.path)
        return content is not None and content.get("token") == self.token

    def release(self) -> None:
        """Let go of the task."""
        self._stop.set()
        if self.is_ours():
            self.path.unlink(missing_ok=True)


def worker_name() -> str:
    """How a worker is called in messages: its machine and process."""
    return f"{socket.gethostname()} (process {os.getpid()})"


def _read_entry(path: Path) -> dict[str, Any] | None:
    """A small JSON file; None where it is not there. One that is just being written is read again."""
    for _ in range(5):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return content if isinstance(content, dict) else {}
        except FileNotFoundError:
            return None
        except ValueError:
            time.sleep(0.02)
    return {}
