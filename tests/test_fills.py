"""The table of fills, and that the command line offers what it does."""

from __future__ import annotations

import argparse

import pytest

from rotopaint_ai import fills
from rotopaint_ai.cli import clean, run


def choices(module: object) -> list[str]:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)  # type: ignore[attr-defined]
    return list(next(action for action in parser._actions if action.dest == "method").choices or ())


def test_both_commands_offer_every_fill() -> None:
    assert choices(run) == choices(clean) == ["auto", "two-bank", "telea"]


@pytest.mark.parametrize("fill", fills.FILLS, ids=lambda fill: fill.name)
def test_every_row_names_a_function_that_is_there(fill: fills.Fill) -> None:
    assert callable(fill.load())


def test_shows_that_name_a_fill_of_before_are_painted_by_the_default() -> None:
    assert fills.named("temporal") == fills.named("learned") == fills.FILLS[0]
