"""The synthetic puppet of `pipeline/puppet.py`, for commands."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def pack(puppet_pack: Path) -> Path:
    """The puppet's model pack."""
    return puppet_pack


@pytest.fixture(scope="session")
def plates(puppet: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four frames."""
    return str(puppet.make_plates(tmp_path_factory.mktemp("plates"), range(1001, 1005)))


@pytest.fixture(scope="session")
def shapes(puppet: ModuleType, plates: str, pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with its shapes."""
    from rotopaint_ai.cli import main

    out = tmp_path_factory.mktemp("shapes")
    assert main(["run", plates, "--crop", puppet.crop_text(), "--out", str(out), "--model", str(pack)]) == 0
    return out
