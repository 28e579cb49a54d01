"""The state of each task, as small files beside the show's results: a show resumes from them, on any engine.

<task>.done       the task is done, for which job, and the files it wrote
<task>.failed     why its last attempts failed
<task>.begun      the cluster workers that began it, one per line; a worker without a later note died during the task
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.batch.task_files import is_there
from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.files import write_json


@dataclass(frozen=True, slots=True)
class TaskNotes:
    """The notes of a show. Each is written whole or not at all, so that a task can safely be done twice."""

    folder: Path

    def is_done(self, task: BatchTask) -> bool:
        """Whether a task is done for the current job, and its files still exist."""
        content = _note_in(self._note_path(task, "done"))
        return content is not None and content.get("fingerprint") == task.fingerprint and is_there(task, content)

    def finish(self, task: BatchTask, facts: Mapping[str, Any]) -> None:
        """Note that a task is done."""
        write_json(self._note_path(task, "done"), {"fingerprint": task.fingerprint, "worker": worker_name(), **facts})
        self.forgive(task)

    def facts(self, task: BatchTask) -> Mapping[str, Any]:
        """The facts noted for a finished task; empty where it is not finished."""
        return (_note_in(self._note_path(task, "done")) or {}) if self.is_done(task) else {}

    def fail(self, task: BatchTask, message: str) -> int:
        """Note a failed attempt; returns how many there were."""
        reasons = [*self.failures(task), message]
        write_json(self._note_path(task, "failed"), {"fingerprint": task.fingerprint, "reasons": reasons})
        return len(reasons)

    def failures(self, task: BatchTask) -> list[str]:
        """The reasons of the failed attempts at a task, for the current job."""
        content = _note_in(self._note_path(task, "failed")) or {}
        return list(content.get("reasons", [])) if content.get("fingerprint") == task.fingerprint else []

    def begin(self, task: BatchTask) -> None:
        """Note that a worker begins an attempt."""
        path = self._note_path(task, "begun")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{worker_name()}\n")

    def n_lost(self, task: BatchTask) -> int:
        """The number of attempts that were begun and whose end was never noted."""
        try:
            begun = self._note_path(task, "begun").read_text(encoding="utf-8").count("\n")
        except FileNotFoundError:
            begun = 0
        return begun - len(self.failures(task))

    def forgive(self, task: BatchTask) -> None:
        """Delete the notes of failed attempts, because the task is done or a person starts it again."""
        for suffix in ("failed", "begun"):
            self._note_path(task, suffix).unlink(missing_ok=True)

    def _note_path(self, task: BatchTask, suffix: str) -> Path:
        return self.folder / f"{task.key}.{suffix}"


def worker_name() -> str:
    """The name of this worker in notes: its machine and process."""
    return f"{socket.gethostname()} (process {os.getpid()})"


def _note_in(path: Path) -> dict[str, Any] | None:
    """The content of a small JSON file; None where it does not exist.

    A file that a network disk shows only partly is read again.
    """
    for _ in range(5):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return content if isinstance(content, dict) else {}
        except FileNotFoundError:
            return None
        except ValueError:
            time.sleep(0.02)
    return {}
