"""What the documents name exists: pictures of the shipped pack, linked files, commands that parse."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from rotopaint_ai.cli import COMMANDS, Parser
from rotopaint_ai.inference.pack import load_pack

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^ {4}(?:\S*/)?(rotopaint .*)$", re.MULTILINE)


def test_the_picture_is_of_the_pack_that_ships() -> None:
    record = json.loads((ROOT / "docs" / "demo.json").read_text())
    assert record["pack"] == load_pack(None).card["files"], "run: python scripts/picture.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in targets if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    """Paths of this repository between backticks."""
    named = re.findall(r"`((?:tests|docs|scripts|benchmarks|plugin|rotopaint_ai|models)/[\w./-]+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_finding_names_a_test_that_is_there() -> None:
    rows = re.findall(
        r"^\| \d* \|.*\| (.*) \|$", (ROOT / "docs" / "research" / "trust.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = [
        (path, name)
        for row in rows
        for path, names in re.findall(r"`([\w/]+\.py)::([^;]+)", row)
        for name in re.findall(r"\w+", names)
    ]
    gone = [
        name for path, name in named if f"def test_{name}(" not in (ROOT / "tests" / path).read_text(encoding="utf-8")
    ]
    assert gone == []
    assert len(named) > 40


def test_every_page_stands_in_the_sites_menu() -> None:
    menu = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert menu == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_programs_that_the_wheel_installs_are_there() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert set(scripts) == {"rotopaint", "rotopaint-panel"}
    for target in scripts.values():
        module, name = target.split(":")
        assert callable(getattr(import_module(module), name))


def test_what_the_workflows_name_is_there() -> None:
    """No workflow runs here, but each is YAML with jobs and steps, and its files exist."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
        assert all(job["runs-on"] and job["steps"] for job in jobs.values())
        text = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
        named = set(re.findall(r"(?:scripts|tests|[.]ci)/[\w./-]+", text))
        assert named
        assert [name for name in named if not (ROOT / name).exists()] == []


def _commands() -> list[str]:
    """The complete command lines of the documents, without the comments after them."""
    found = {
        line.split(" #")[0].strip() for page in PAGES for line in COMMAND.findall(page.read_text(encoding="utf-8"))
    }
    return sorted(line for line in found if not {"...", "\\"} & set(line.split()))


@pytest.mark.parametrize("line", _commands())
def test_commands_of_the_documents_are_understood(line: str) -> None:
    name, *words = shlex.split(line.split(" && ")[0])[1:]
    assert name in COMMANDS
    parser = Parser(prog=name)
    import_module(f"rotopaint_ai.cli.{name}").add_arguments(parser)
    parser.parse_args(words)
