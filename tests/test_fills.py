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


def test_a_run_offers_only_what_it_can_do() -> None:
    assert choices(run) == ["auto", "two-bank", "learned", "telea"]
    assert choices(clean) == ["auto", "two-bank", "temporal", "learned", "telea"]


@pytest.mark.parametrize("fill", fills.FILLS, ids=lambda fill: fill.name)
def test_every_row_names_a_function_that_is_there(fill: fills.Fill) -> None:
    assert callable(fill.load())


def test_what_needs_a_model_is_not_offered_without_one() -> None:
    assert "learned" not in fills.names(model=False)
    assert "auto" in fills.names(model=False)
