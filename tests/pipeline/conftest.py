"""A pack and plates for the line's tests, made once."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    name = "line_puppet"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("puppet.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def puppet() -> ModuleType:
    """Draws plates of a made-up puppet, and makes the pack that sees it."""
    return _load()


@pytest.fixture(scope="session")
def pack(puppet: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model pack for that puppet."""
    return Path(puppet.make_pack(tmp_path_factory.mktemp("packs") / "puppet"))


@pytest.fixture(scope="session")
def plates(puppet: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve frames, every pose held for two."""
    return str(puppet.make_plates(tmp_path_factory.mktemp("plates")))
