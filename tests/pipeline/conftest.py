"""A pack and plates for the line's tests, made once."""

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
    """Twelve frames; every pose is held for two."""
    return str(puppet.make_plates(tmp_path_factory.mktemp("plates")))
