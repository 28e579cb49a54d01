"""A missing backend is refused in one line before any rank starts."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch.distributed as dist

from rotopaint_ai.cli import main
from rotopaint_ai.errors import UsageError
from rotopaint_ai.training.trainer.group import check_backend
from rotopaint_ai.training.trainer.launch import DONE


def test_backends_that_are_not_installed_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_mpi_available", lambda: False)
    with pytest.raises(UsageError, match="--backend mpi: this PyTorch was built without MPI"):
        check_backend("mpi")
    monkeypatch.setitem(sys.modules, "oneccl_bindings_for_pytorch", None)
    with pytest.raises(UsageError, match="--backend ccl: needs oneccl_bindings_for_pytorch"):
        check_backend("ccl")
    with pytest.raises(UsageError, match="--backend smoke: wanted one of gloo, mpi, ccl"):
        check_backend("smoke")


def test_backends_that_are_installed_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_mpi_available", lambda: True)
    monkeypatch.setitem(sys.modules, "oneccl_bindings_for_pytorch", ModuleType("oneccl_bindings_for_pytorch"))
    for name in ("gloo", "mpi", "ccl"):
        check_backend(name)


def test_the_command_refuses_before_it_reads_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DONE, "1")  # this process does not restart
    assert main(["train", "nothing", "--out", "x", "--backend", "smoke"]) == 2
    assert capsys.readouterr().err == "rotopaint train: --backend smoke: wanted one of gloo, mpi, ccl\n"
