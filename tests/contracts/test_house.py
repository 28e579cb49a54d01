"""The plan of the house: no import circle, and no public class name with two meanings."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"rotopaint_ai": ROOT, "rotopaint_ui": ROOT / "ui", "rotopaint_nuke": ROOT / "plugin"}
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
RELATIVE = re.compile(r"^\s*from \.", re.MULTILINE)


@cache
def texts() -> dict[Path, str]:
    """Every module of the product."""
    files = [path for name, place in PACKAGES.items() for path in sorted((place / name).rglob("*.py"))]
    return {path: path.read_text(encoding="utf-8") for path in files}


def imports() -> dict[str, set[str]]:
    """What each module of the product imports of it anywhere: at its top, in functions and for types."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {name: set(graph.find_modules_directly_imported_by(name)) - {name} for name in graph.modules}


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
    graph = imports()
    assert sum(map(len, graph.values())) > len(graph) > 100
    assert circles(graph) == []


def test_imports_are_by_whole_names() -> None:
    assert [path for path, text in texts().items() if RELATIVE.search(text)] == []


def test_what_nuke_starts_is_imported_by_nothing() -> None:
    """`startup` is no package, and so no part of the picture of imports: Nuke runs its files one by one."""
    startup = re.compile(r"rotopaint_nuke\.startup|rotopaint_nuke import startup|import rotopaint_nuke_bootstrap")
    users = [path for path, text in texts().items() if startup.search(text)]
    assert {path.parent.name for path in users} <= {"startup"}


def test_a_public_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for path, text in texts().items():
        for name in CLASS.findall(text):
            places[name].append(path)
    doubled = {name: found for name, found in places.items() if len(found) > 1}
    assert doubled == {}


def test_nothing_is_kept_that_is_made_or_lies_elsewhere() -> None:
    """No file that `.gitignore` names, and no link: it would lead to a place that others have not."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    made = subprocess.check_output(["git", "ls-files", "-ci", "--exclude-standard"], cwd=ROOT, text=True)
    listed = subprocess.check_output(["git", "ls-files", "-s"], cwd=ROOT, text=True).splitlines()
    assert (made, [line for line in listed if line.startswith("120000")]) == ("", [])
