"""The table of fills, and that the command line offers what it does."""

from __future__ import annotations

import argparse

import pytest

from rotopaint_ai import fills
from rotopaint_ai.cli import clean, run
from rotopaint_ai.jobs import RunJob


def choices(module: object) -> list[str]:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)  # type: ignore[attr-defined]
    return list(next(action for action in parser._actions if action.dest == "method").choices or ())


def test_both_commands_offer_every_fill() -> None:
    assert choices(run) == choices(clean) == list(fills.names())


@pytest.mark.parametrize("fill", fills.FILLS, ids=lambda fill: fill.name)
def test_every_row_names_a_function_that_is_there(fill: fills.Fill) -> None:
    assert callable(fill.load())


@pytest.mark.parametrize("name", ["temporal", "learned", "telea"])
def test_a_removed_fill_falls_back_to_the_default(name: str) -> None:
    assert fills.find_fill(name) == fills.FILLS[0]
    for command, words in ((run, ["p.####.exr", "--out", "o"]), (clean, ["p.####.exr", "s.nk", "--out", "o"])):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        assert parser.parse_args([*words, "--method", name]).method == fills.DEFAULT
    assert RunJob("p", "o", ("auto",), method=name).method == name
