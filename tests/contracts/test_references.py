"""What docstrings, comments and docs/research name between backticks is there: `module.name`, `Class.name`, `file.py`.

A map of a room, in the docstring of its `__init__.py`, names all its modules.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"rotopaint_ai": ROOT, "rotopaint_ui": ROOT / "ui", "rotopaint_nuke": ROOT / "plugin"}
TEXTS = ("rotopaint_ai", "ui", "plugin", "benchmarks", "scripts", "tests")
DOTTED = re.compile(r"`((?:\w+\.)+\w+)(?:\([^`]*\))?`")
FILE = re.compile(r"`([\w/]*\w\.py)`")
ENDINGS = {"py", "pyi", "onnx", "json", "jsonl", "journal", "nk", "csv"}  # `pack.onnx` is a file
PLACEHOLDER = "X"
QUOTED = re.compile(r"`([\w./]+)`")
FIRST_COLUMN = re.compile(r"^ {4}(\w+) {2,}", re.MULTILINE)  # of a table in a docstring
ENTRY_POINTS = {"rotopaint_ai.formats", "rotopaint_ai.parts"}  # groups of other people's packages


def identifiers(tree: ast.AST) -> set[str]:
    """Every name that a module defines, imports or uses."""
    found = set()
    for node in ast.walk(tree):
        for field in ("name", "id", "attr", "arg", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                found.add(name)
    return found


@cache
def known() -> dict[str, list[set[str]]]:
    """The identifiers of modules, by the end of a module's path (`seams.rig`, `rig`) or the name of a class in it."""
    found = defaultdict(list)
    for package, place in PACKAGES.items():
        for path in (place / package).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            names, parts = identifiers(tree), path.relative_to(place).with_suffix("").parts
            for k in range(len(parts)):
                found[".".join(parts[k:]).removesuffix(".__init__")].append(names)
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(names)
    return dict(found)


def is_gone(name: str) -> bool:
    """Whether a dotted name begins with a module or class of ours that lacks the rest."""
    parts = name.split(".")
    if parts[-1] in ENDINGS or parts[-1] == PLACEHOLDER or name in ENTRY_POINTS:
        return False
    for k in range(len(parts) - 1, 0, -1):
        if owners := known().get(".".join(parts[:k])):
            return name not in known() and not any(parts[k] in names for names in owners)
    return False


def references(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Place and name of each match in the texts."""
    sources = [path for room in TEXTS for path in sorted((ROOT / room).rglob("*.py"))]
    for path in [*sources, *sorted((ROOT / "docs" / "research").glob("*.md"))]:
        if path.name != Path(__file__).name:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                yield from ((f"{path.relative_to(ROOT)}:{number}", name) for name in pattern.findall(line))


def named_modules(text: str, modules: set[str]) -> set[str]:
    """The modules that a room's docstring names, between backticks or in the first column of a table."""
    quoted = {name.removesuffix(".py").rstrip("/").split("/")[-1] for name in QUOTED.findall(text)}
    return modules & (quoted | set(FIRST_COLUMN.findall(text)))


def rooms() -> Iterator[tuple[Path, str, set[str]]]:
    """Each package that is no test: its `__init__.py`, the docstring, and the names of its modules and subpackages."""
    for package, place in PACKAGES.items():
        for path in sorted((place / package).rglob("__init__.py")):
            files = {each.stem for each in path.parent.glob("*.py") if not each.stem.startswith("__")}
            folders = {each.parent.name for each in path.parent.glob("*/__init__.py")}
            yield path, ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "", files | folders


def test_a_name_that_is_gone_is_found() -> None:
    names = (
        "errors.UsageError",
        "errors.NoSuchError",
        "FrameRange.first",
        "FrameRange.gone",
        "seams.rig",
        "numpy.gone",
    )
    assert [name for name in names if is_gone(name)] == ["errors.NoSuchError", "FrameRange.gone"]


def test_dotted_names_are_there() -> None:
    found = list(references(DOTTED))
    assert len(found) > 100
    assert [each for each in found if is_gone(each[1])] == []


def test_files_between_backticks_are_there() -> None:
    files = [f"/{path.relative_to(ROOT).as_posix()}" for room in TEXTS for path in (ROOT / room).rglob("*.py")]
    found = list(references(FILE))
    assert len(found) > 10
    assert [each for each in found if not any(path.endswith(f"/{each[1]}") for path in files)] == []


def test_names_of_modules_are_found_in_a_map() -> None:
    modules = {"matte", "path", "rig"}
    assert named_modules("`matte` draws, `seams/path.py` searches; no word of a rig.", modules) == {"matte", "path"}
    assert named_modules("In order:\n\n    matte   draws\n    rig     fills", modules) == {"matte", "rig"}


def test_a_map_names_all_modules_of_its_room() -> None:
    named = {path: (named_modules(text, modules), modules) for path, text, modules in rooms()}
    maps = {path: modules - found for path, (found, modules) in named.items() if found}
    assert len(maps) > 10
    assert {path: left_out for path, left_out in maps.items() if left_out} == {}
