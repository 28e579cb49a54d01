"""The shared environment of all nodes: install it, check that a node has it, or record this environment.

pip install -c scripts/environment.txt '.[ui,train,cloud]'    # the same versions on each node
python scripts/environment.py                                 # list differences; exit code 1 if there are any
python scripts/environment.py --write                         # this environment becomes the shared one
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "scripts/environment.txt"
EXTRAS = ("ui", "train", "cloud")


def read_requirements() -> list[Requirement]:
    """The requirements of `pyproject.toml` for artists, training and the cloud."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [*project["dependencies"], *(row for name in EXTRAS for row in project["optional-dependencies"][name])]
    return [each for each in map(Requirement, rows) if each.marker is None or each.marker.evaluate()]


def read_pins() -> dict[str, Version]:
    """The versions of `environment.txt`, by canonical name."""
    rows = [line.split("==") for line in FILE.read_text(encoding="utf-8").splitlines() if "==" in line]
    return {canonicalize_name(name): Version(version) for name, version in rows}


def installed_version(name: str) -> Version | None:
    """The installed version without its build tag (2.13.0+cpu is 2.13.0)."""
    try:
        return Version(Version(distribution(name).version).public)
    except PackageNotFoundError:
        return None


def closure() -> dict[str, Version]:
    """All installed packages that the requirements need, directly or indirectly."""
    found: dict[str, Version] = {}
    todo = read_requirements()
    while todo:
        each = todo.pop()
        name = canonicalize_name(each.name)
        version = installed_version(name)
        if name not in found and version is not None:
            found[name] = version
            todo += _needs(name, each.extras)
    return found


def _needs(name: str, extras: set[str]) -> Iterator[Requirement]:
    for each in map(Requirement, distribution(name).requires or ()):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield each


def differences(pins: Mapping[str, Version]) -> list[str]:
    """The packages that are installed in another version, one line each."""
    here = {name: installed_version(name) for name in pins}
    return [f"{name} {here[name]}: wanted {pin}" for name, pin in pins.items() if here[name] not in (None, pin)]


def main(words: list[str]) -> int:
    """Check the environment, or record it with `--write`; returns the exit code."""
    if words == ["--write"]:
        rows = "".join(f"{name}=={version}\n" for name, version in sorted(closure().items()))
        FILE.write_text(f"# Written by scripts/environment.py --write on Python {sys.version.split()[0]}.\n{rows}")
        return 0
    pins = read_pins()
    found = differences(pins)
    absent = [name for name in pins if installed_version(name) is None]
    print("\n".join([*found, *(f"not installed here: {', '.join(absent)}" for _ in absent[:1])]) or "the same")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
