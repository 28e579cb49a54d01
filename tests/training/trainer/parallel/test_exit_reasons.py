"""A fatal error of ranks is reported once, in a line, with its exit code; only recoverable errors restart them."""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.cli import train as cli_train
from rotopaint_ai.errors import CancelledError, TrainingError
from rotopaint_ai.training.trainer import launch


@pytest.fixture
def as_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | None], int]:
    """Runs `rotopaint train` as the second of two ranks whose training ends with an error."""
    for name, value in (
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("ROTOPAINT_ALLOCATOR", "1"),
        (launch.FOLDER, str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)

    def run(error: BaseException | None) -> int:
        def joined(arguments: argparse.Namespace, train: object, since: float) -> int:
            if error is None:
                return 0
            raise error

        monkeypatch.setattr(cli_train, "_train_joined", joined)
        return main(["train", "data", "--out", "pip"])

    return run


@pytest.mark.parametrize(
    ("error", "code", "reported"),
    [
        (TrainingError("data: no dataset.json"), 2, "data: no dataset.json"),
        (CancelledError("stopped on request"), 130, "stopped on request"),
        (KeyboardInterrupt(), 130, "stopped"),
        (OSError(errno.ENOSPC, "No space left on device", "pip.run/x"), 5, "pip.run/x: No space left on device"),
    ],
)
def test_a_rank_that_nothing_can_mend_ends_all(
    as_rank: Callable[[BaseException | None], int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    reported: str,
) -> None:
    assert as_rank(error) == 0  # the launcher does not restart it
    assert as_rank(AssertionError("nobody trains after that")) == 0
    assert capsys.readouterr().err == ""
    assert launch._report_exit(tmp_path, 0) == code
    assert capsys.readouterr().err.startswith(f"rotopaint train: {reported}")


def test_a_rank_that_lost_another_is_started_again(
    as_rank: Callable[[BaseException | None], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_rank(RuntimeError("Connection closed by peer")) == 1
    assert as_rank(None) == 0
    assert launch._report_exit(tmp_path, 0) == 0
    assert capsys.readouterr().err == ""
    assert launch._report_exit(tmp_path, 1) == 1
    assert "a rank was lost 4 times; the last reason: RuntimeError: Connection closed" in capsys.readouterr().err


def test_the_launcher_is_silent(tmp_path: Path) -> None:
    rank = tmp_path / "rank.py"
    rank.write_text("import os, sys\nprint('life', os.environ['TORCHELASTIC_RESTART_COUNT'])\nsys.exit(3)\n")
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [
        sys.executable,
        "-m",
        "rotopaint_ai.training.trainer.launch",
        "--standalone",
        "--nproc-per-node",
        "1",
    ]
    command += ["--max-restarts", "1", "--monitor-interval", "0.1", str(rank)]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split("\n"), done.stderr) == (1, ["life 0", "life 1", ""], "")
