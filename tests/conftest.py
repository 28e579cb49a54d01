"""What tests share: the place of the shared test data, Qt without a display, and a synthetic puppet with its pack."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from module_file import module_at

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # however busy the machine is
settings.register_profile("repeatable", UNHURRIED, derandomize=True)  # the same examples on every machine ...
settings.register_profile("explore", UNHURRIED)  # ... and new ones with HYPOTHESIS_PROFILE=explore
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared test data beside the checkout; tests that need it are skipped where it is missing."""
    if not SHARED.is_dir():
        pytest.skip("the shared test data is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def puppet() -> ModuleType:
    """Draws plates of a synthetic puppet, and makes the pack that detects it (`pipeline/puppet.py`)."""
    return module_at(Path(__file__).parent / "pipeline" / "puppet.py")


@pytest.fixture(scope="session")
def puppet_pack(puppet: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model pack for that puppet."""
    return Path(puppet.make_pack(tmp_path_factory.mktemp("packs") / "puppet"))
