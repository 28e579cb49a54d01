"""Mining on a cluster with one killed worker: the data set equals a local one, byte for byte."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.cli import main

pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own loops and sockets that tests terminate abruptly


def files_of(folder: Path) -> dict[str, bytes]:
    """Contents of the written files by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_data_set_by_two_workers_is_the_same_although_one_is_killed(
    character: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rotopaint_ai.batch import cluster

    sources = [str(character.roto(1)), str(character.roto(2)), str(character.coco)]
    words = ["mine", *sources, "--plates", character.plates, "--size", "64"]
    assert main([*words, "--out", str(tmp_path / "one" / "set")]) == 0
    mark, connected = tmp_path / "killed", cluster.connect_cluster

    class Killing(Executor):
        """Kill the first part's worker once, in the middle of its work."""

        def __init__(self, inner: Executor) -> None:
            self.inner = inner

        def submit(self, work: Callable[..., Any], /, *items: Any, **more: Any) -> Future[Any]:
            return self.inner.submit(die_first, str(mark), work, *items)

        def map(self, work: Callable[..., Any], *items: Any, **more: Any) -> Any:  # type: ignore[override]
            return [each.result() for each in [self.submit(work, *some) for some in zip(*items)]]

    def die_first(mark: str, work: Callable[..., Any], *items: Any) -> Any:
        if not os.path.exists(mark):
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*items)

    @contextmanager
    def killing(address: str | None, workers: int) -> Iterator[Any]:
        with connected(address, workers) as client:
            own = client.get_executor
            client.get_executor = lambda **settings: Killing(own(**settings))
            yield client

    monkeypatch.setattr(cluster, "connect_cluster", killing)
    assert main([*words, "--out", str(tmp_path / "two" / "set"), "--workers", "2"]) == 0
    assert mark.exists()
    assert files_of(tmp_path / "two/set") == files_of(tmp_path / "one/set")
