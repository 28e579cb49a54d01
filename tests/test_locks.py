"""Locks: one process at a time, on disks with and without locks of their own, and never through a link."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.locks import FileLock, hold_lock, take


def refuse_flock(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "no locks here")

    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize("code", [0, errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_second_one_is_refused_until_the_first_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    if code:
        refuse_flock(monkeypatch, code)
    path = tmp_path / "new" / "lock"
    with hold_lock(path, refusal="busy"), pytest.raises(UsageError, match="busy"):
        take(path, refusal="busy")
    take(path, refusal="busy").release()


@pytest.mark.skipif(sys.platform != "linux", reason="containers have process numbers of their own on Linux")
def test_a_living_owner_in_another_container_of_the_same_name_keeps_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process number belongs to no process here, which must not count as evidence."""
    refuse_flock(monkeypatch, errno.ENOLCK)
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "lock.owner").write_text(f"{gone.pid}\n{socket.gethostname()}?pidns-f0000152\n")
    with pytest.raises(BlockingIOError):
        FileLock(tmp_path / "lock")


def test_a_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "roto.nk"
    target.write_text("weeks of work")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(UsageError, match="is a symbolic link"):
        take(tmp_path / "lock", refusal="busy")
    assert target.read_text() == "weeks of work"


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_host_without_the_library_and_the_product_keep_each_other_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours_first: bool
) -> None:
    def in_host(path: Path) -> FileLock:
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, "filelock", None)  # as in a Python that lacks it
            return take(path, refusal="busy")

    def at_home(path: Path) -> FileLock:
        return take(path, refusal="busy")

    first, second = (at_home, in_host) if ours_first else (in_host, at_home)
    lock = first(tmp_path / "lock")
    for other in (first, second):
        with pytest.raises(UsageError, match="busy"):
            other(tmp_path / "lock")
    lock.release()
    second(tmp_path / "lock").release()
