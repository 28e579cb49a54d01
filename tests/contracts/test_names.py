"""Counts function names that two or more modules share: whoever searches a name should find one place."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"rotopaint_ai": ROOT, "rotopaint_ui": ROOT / "ui", "rotopaint_nuke": ROOT / "plugin"}
INTERFACES = {  # what every module of a room offers by the same names
    "exchange": {"dumps", "loads", "read", "write", "read_report", "write_report", "dump_script", "losses_of"},
    "cli": {"add_arguments", "execute"},
    "bench": {"add_arguments", "measure"},
}
CEILING = 0.05

CLASS = re.compile(r"class (\w+)(?:\((.*)\))?:")
DEF = re.compile(r"(    )?def ([a-z_][a-z0-9_]*)\(")

Functions = Iterator[tuple[str | None, str]]


def product() -> dict[str, str]:
    """The text of every module, by its dotted path."""
    files = [(path, place) for name, place in PACKAGES.items() for path in (place / name).rglob("*.py")]
    return {".".join(path.relative_to(place).parts): path.read_text("utf-8") for path, place in files}


def functions(text: str) -> Functions:
    """Class (None: none) and name of each function and method of a module, without dunders and Qt's names."""
    inside = None
    for line in text.splitlines():
        if head := CLASS.match(line):
            inside = head[1]
        elif found := DEF.match(line):
            inside = inside if found[1] else None
            if not found[2].startswith("__") and (inside or not found[1]):
                yield inside, found[2]
        elif line[:1].isalpha():
            inside = None


def promised(texts: Mapping[str, str]) -> set[str]:
    """Methods that a class gets from a protocol or from another class of the product."""
    bases: dict[str, list[str]] = {}
    own: dict[str, set[str]] = defaultdict(set)
    for text in texts.values():
        for line in text.splitlines():
            if head := CLASS.match(line):
                bases[head[1]] = [base.split("[")[0].split(".")[-1].strip() for base in (head[2] or "").split(",")]
        for inside, name in functions(text):
            if inside:
                own[inside].add(name)
    found = {method for name, above in bases.items() if "Protocol" in above for method in own[name]}
    for name, direct in bases.items():
        above = list(direct)
        for base in above:
            found |= own[name] & own[base]
            above.extend(each for each in bases.get(base, ()) if each not in above)
    return found


def shared_names(texts: Mapping[str, str]) -> tuple[set[str], dict[str, set[str]]]:
    """All names; and those in two or more modules, with these modules.

    Left out are promised methods, torch's `forward`, and the functions in `INTERFACES`.
    """
    places = defaultdict(set)
    from_above = promised(texts) | {"forward"}
    for module, text in texts.items():
        offered = INTERFACES.get(module.split(".")[1], set())
        for inside, name in functions(text):
            if name not in (from_above if inside else offered):
                places[name].add(module)
    return set(places), {name: found for name, found in sorted(places.items()) if len(found) > 1}


def test_a_shared_name_is_found_and_an_interface_is_not() -> None:
    base = "class A(Protocol):\n    def paint(self): ...\ndef execute(): ...\ndef read(): ...\n"
    other = "class B(A):\n    def paint(self): ...\ndef execute(): ...\ndef read(): ...\ndef own(): ...\n"
    trees = {"p.cli.a": base, "p.cli.b": other}
    assert shared_names(trees) == ({"read", "own"}, {"read": {"p.cli.a", "p.cli.b"}})


def test_few_names_of_functions_stand_in_two_modules() -> None:
    names, shared = shared_names(product())
    assert len(shared) / len(names) <= CEILING, f"give a new function a name of its own, none of these: {shared}"
