"""The plan of the house: no import circle, and no public class name with two meanings."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"rotopaint_ai": ROOT, "rotopaint_ui": ROOT / "ui", "rotopaint_nuke": ROOT / "plugin"}
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
ALIAS = re.compile(r"^(?:type )?([A-Z]\w*[a-z]\w*)(?:: TypeAlias)? = ([^#\n]+)", re.MULTILINE)
LOCAL = re.compile(r"NDArray|TypeVar\(|ParamSpec\(")  # arrays and type variables are named anew in every module
RELATIVE = re.compile(r"^\s*from \.", re.MULTILINE)


@cache
def texts() -> dict[Path, str]:
    """Every module of the product."""
    files = [path for name, place in PACKAGES.items() for path in sorted((place / name).rglob("*.py"))]
    return {path: path.read_text(encoding="utf-8") for path in files}


def imports() -> dict[str, set[str]]:
    """The modules of the product that each module imports: at its top, in functions and for types."""
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
    """`startup` is not a package, and so not in the graph of imports: Nuke runs its files one by one."""
    startup = re.compile(r"rotopaint_nuke\.startup|rotopaint_nuke import startup|import rotopaint_nuke_bootstrap")
    users = [path for path, text in texts().items() if startup.search(text)]
    assert {path.parent.name for path in users} <= {"startup"}


def shared_types(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """Public names with two meanings (classes, or aliases of different types), and their modules.

    Aliases of arrays, type variables and names of another module do not count.
    """
    places: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, text in modules.items():
        for name in CLASS.findall(text):
            places[name][f"class of {module}"].add(module)
        for name, meaning in ALIAS.findall(text):
            if not LOCAL.search(meaning) and not meaning.strip().endswith(f".{name}"):
                places[name][meaning.strip()].add(module)
    return {name: set().union(*found.values()) for name, found in places.items() if len(found) > 1}


def test_a_type_of_two_meanings_is_found() -> None:
    modules = {
        "a": "class Key: ...\nPlace = tuple[float, float]\nArray = NDArray[Any]\nT_co = TypeVar('T_co')\n",
        "b": "Key = tuple[int, ...]  # rows\nPlace = tuple[float, float]\nArray = NDArray[float32]\n",
        "c": "class Key: ...\nPlace = str\n",
    }
    assert shared_types(modules) == {"Key": {"a", "b", "c"}, "Place": {"a", "b", "c"}}


def test_a_public_type_name_has_one_meaning() -> None:
    found = shared_types({str(path.relative_to(ROOT)): text for path, text in texts().items()})
    assert found == {}


def test_nothing_is_kept_that_is_made_or_lies_elsewhere() -> None:
    """No file in git is one that `.gitignore` names, or a link, whose target others may not have."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    made = subprocess.check_output(["git", "ls-files", "-ci", "--exclude-standard"], cwd=ROOT, text=True)
    listed = subprocess.check_output(["git", "ls-files", "-s"], cwd=ROOT, text=True).splitlines()
    assert (made, [line for line in listed if line.startswith("120000")]) == ("", [])
