"""Comparison of two results of one kind as a table: both machines, and every figure with its ratio."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError

_SETTINGS = ("settings", "wanted")  # fields of a result that must be equal in both


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this kind to the parser."""
    parser.add_argument(
        "results",
        nargs=2,
        metavar="FILE.json",
        help="two files that --json wrote for the same kind, for example on two machines",
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """The values of both results by name, as JSON values. Raises UsageError where kind or settings differ."""
    one, other = (_read_result(Path(name)) for name in arguments.results)
    for name in ("benchmark", *_SETTINGS):
        if one.get(name) != other.get(name):
            got = f"{one.get(name)!r:.80} and {other.get(name)!r:.80}"
            raise UsageError(f"bench compare: '{name}' differs: {got}; measure both in the same way")
    ours, theirs = dict(_flatten_result(one)), dict(_flatten_result(other))
    names = list(dict.fromkeys((*ours, *theirs)))
    return {"benchmark": one.get("benchmark"), "rows": [[name, ours.get(name), theirs.get(name)] for name in names]}


def result_text(content: dict[str, Any]) -> str:
    """The table as text, with the ratio second / first where both are numbers."""
    cells = [[name, _cell(a), _cell(b), _ratio(a, b)] for name, a, b in content["rows"]]
    cells.insert(0, [str(content["benchmark"] or ""), "A", "B", "B / A"])
    widths = [min(44, max(len(row[at]) for row in cells)) for at in range(4)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in cells)


def _read_result(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"bench compare: {path}: {error}; wanted a file that 'rotopaint bench --json' wrote"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("machine"), dict):
        raise UsageError(f"bench compare: {path}: does not describe its machine; measure again with --json")
    return content


def _flatten_result(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All texts and numbers by their path in the result; those of the machine come first."""
    if isinstance(value, dict):
        for key in sorted(value, key=lambda key: key != "machine"):
            if name or key not in ("benchmark", *_SETTINGS):
                yield from _flatten_result(value[key], f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _flatten_result(each, f"{name}[{at}]")
    else:
        yield name, value


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _ratio(one: Any, other: Any) -> str:
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return f"{other / one:.3f}" if are_numbers and one else ""
