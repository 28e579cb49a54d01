"""Locks: one process at a time, on disks with and without locks of their own, and never through a link."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.locks import locked, take


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
    with locked(path, refusal="busy"), pytest.raises(UsageError, match="busy"):
        take(path, refusal="busy")
    take(path, refusal="busy").release()


def test_a_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "roto.nk"
    target.write_text("weeks of work")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(UsageError, match="is a link"):
        take(tmp_path / "lock", refusal="busy")
    assert target.read_text() == "weeks of work"
