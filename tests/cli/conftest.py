"""The line's made-up puppet, for commands."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def puppet() -> ModuleType:
    """The module that draws the puppet and makes its pack."""
    name = "line_puppet"
    if name not in sys.modules:
        path = Path(__file__).parents[1] / "pipeline" / "puppet.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def pack(puppet: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model pack for that puppet."""
    return Path(puppet.make_pack(tmp_path_factory.mktemp("packs") / "puppet"))


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
