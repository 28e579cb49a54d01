"""The plan of the house: no import circle, and no public class name with two meanings."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"rotopaint_ai": ROOT, "rotopaint_ui": ROOT / "ui", "rotopaint_nuke": ROOT / "plugin"}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the product by its dotted name, parsed."""
    found = {}
    for package, place in PACKAGES.items():
        for path in sorted((place / package).rglob("*.py")):
            parts = path.relative_to(place).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(name: str) -> Iterator[str]:
    """The product's modules that a module imports anywhere in its text: at its top, in functions and for types."""
    known = modules()
    for node in ast.walk(known[name]):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports by whole names only"
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in known else str(node.module)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of two or more modules that reach each other (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        path.append(name)
        for other in graph.get(name, ()):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in path:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            place = path.index(name)
            if len(path) - place > 1:
                found.append(set(path[place:]))
            del path[place:]

    for name in graph:
        if name not in number:
            visit(name)
    return found


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles(graph) == [{"b", "c"}]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: set(imported(name)) - {name} for name in modules()}
    assert circles(graph) == []


def test_a_public_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    doubled = {name: found for name, found in places.items() if len(found) > 1}
    assert doubled == {}
