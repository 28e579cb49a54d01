"""The environment that nodes share pins everything that the product wants, in versions that it allows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from module_file import module_at


@pytest.fixture
def environment() -> ModuleType:
    return module_at(Path(__file__).parents[2] / "scripts" / "environment.py")


def test_every_dependency_is_pinned_within_its_range(environment: ModuleType) -> None:
    pins = environment.read_pins()
    wanted = {environment.canonicalize_name(each.name): each for each in environment.read_requirements()}
    assert wanted.keys() <= pins.keys()
    assert all(each.specifier.contains(pins[name]) for name, each in wanted.items())


def test_what_differs_here_is_named(environment: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    here, other = environment.installed_version("numpy"), environment.Version("1.0")
    assert environment.differences({"numpy": here, "no-such-package": other}) == []
    assert environment.differences({"numpy": other}) == [f"numpy {here}: wanted 1.0"]
