"""Nuke's start with the plugin on NUKE_PATH, in a Python without site-packages that refuses every heavy library."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from module_file import module_at

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"rotopaint_ai": ROOT, "rotopaint_ui": ROOT / "ui", "rotopaint_nuke": ROOT / "plugin"}

NUKE = """
import builtins, json, sys, types
startup, has_file, on_path, with_qt, old = json.loads(sys.argv[1])
if old:
    sys.version_info = (3, 7, 7)
HEAVY = {"numpy", "cv2", "onnxruntime", "torch", "PIL", "OpenImageIO", "av", "yaml", "scipy"}
real_import = builtins.__import__
def guarded(name, *rest, **more):
    if name.split(".")[0] in HEAVY:
        raise ImportError(name + " is blocked in this Nuke")
    return real_import(name, *rest, **more)
builtins.__import__ = guarded

said, commands, registered = [], {}, []
nuke = types.ModuleType("nuke")
nuke.pluginPath = lambda: [startup, "/somewhere/else"]
nuke.tprint = nuke.message = lambda text: said.append(text)
nuke.selectedNodes = lambda kind=None: []
class Menu:
    def addMenu(self, name): return self
    def addCommand(self, name, act): commands[name] = act
nuke.menu = lambda name: Menu()
nuke.getPaneFor = lambda name: None
class Panel:
    def show(self): said.append("shown")
panels = types.ModuleType("nukescripts.panels")
def register(widget, name, id, create=False):
    registered.append((widget, name, id))
    return Panel() if create else None
panels.registerWidgetAsPanel = register
nukescripts = types.ModuleType("nukescripts")
nukescripts.panels = panels
sys.modules.update({"nuke": nuke, "nukescripts": nukescripts, "nukescripts.panels": panels})
if with_qt:
    import importlib.machinery
    qt = types.ModuleType("PySide6")
    qt.__spec__ = importlib.machinery.ModuleSpec("PySide6", None)
    sys.modules["PySide6"] = qt
if on_path:
    sys.path.append(startup)
for name in ("init.py", "menu.py"):
    scope = {"__name__": "__main__"}
    if has_file:
        scope["__file__"] = startup + "/" + name
    exec(compile(open(startup + "/" + name).read(), name, "exec"), scope)
names = ("rotopaint_ai", "rotopaint_ui", "rotopaint_nuke")
found = {name: sys.modules[name].__path__[0] for name in names if name in sys.modules}
text = None
if "rotopaint_ai" in found:
    from rotopaint_ai.exchange import document, nuke as nuke_text
    from rotopaint_nuke import batch, clean_merge, roto_node
    from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
    shape = RotoShape("seam", False, "seam", {1: Key((ControlPoint(1, 2), ControlPoint(3, 4)))})
    text = nuke_text.dumps(RotoDocument(64, 48, 1, 1, shapes=(shape,)), node="RotoPaint")
    import pathlib, tempfile
    from rotopaint_ai.project import Project
    with tempfile.TemporaryDirectory() as folder:
        Project.create(pathlib.Path(folder) / "shot.rotopaint").close()
if "Open panel" in commands:
    commands["Open panel"]()
print(json.dumps({"said": said, "commands": sorted(commands), "registered": registered, "found": found,
    "heavy": sorted(HEAVY & set(sys.modules)), "site": [p for p in sys.path if "site-packages" in p], "text": text}))
"""


def start(
    startup: Path, *, has_file: bool = True, on_path: bool = True, with_qt: bool = True, old: bool = False
) -> dict[str, object]:
    """The state of a Nuke after its start with this folder on NUKE_PATH; `old`: one with Python 3.7."""
    facts = json.dumps([str(startup), has_file, on_path, with_qt, old])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", NUKE, facts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.parametrize("on_path", [True, False])
def test_nuke_starts_with_menu_and_panel_and_nothing_heavy(has_file: bool, on_path: bool) -> None:
    found = start(ROOT / "plugin" / "rotopaint_nuke" / "startup", has_file=has_file, on_path=on_path)
    assert found["said"] == ["shown"]
    assert found["commands"] == ["Clean plate over the selected Read...", "Open panel"]
    assert found["heavy"] == []
    assert found["site"] == []
    assert found["found"] == {name: str(folder / name) for name, folder in PARTS.items()}
    registered = found["registered"]
    assert isinstance(registered, list)
    assert registered[0][1:] == ["RotoPaint AI", "ai.rotopaint.panel"]
    assert "RotoPaint {" in str(found["text"])


def test_an_installation_in_a_folder_with_a_blank_is_found(tmp_path: Path) -> None:
    site = tmp_path / "my site-packages"
    for name, folder in PARTS.items():
        shutil.copytree(folder / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    found = start(site / "rotopaint_nuke" / "startup", on_path=False)
    assert found["found"] == {name: str(site / name) for name in PARTS}
    assert "Open panel" in str(found["commands"])


def test_without_pyside6_the_standalone_app_is_offered() -> None:
    found = start(ROOT / "plugin" / "rotopaint_nuke" / "startup", with_qt=False)
    assert found["commands"] == ["Import shapes...", "Open in the standalone app"]
    assert found["said"] == []


def test_a_broken_installation_is_reported_and_nuke_starts(tmp_path: Path) -> None:
    startup = tmp_path / "rotopaint_nuke" / "startup"
    shutil.copytree(ROOT / "plugin" / "rotopaint_nuke" / "startup", startup)
    found = start(startup)
    said = found["said"]
    assert isinstance(said, list)
    assert said[0].startswith("RotoPaint AI is not available: package rotopaint_ai is not found")


def test_an_old_nuke_loads_none_of_our_packages_and_offers_the_standalone_app() -> None:
    found = start(ROOT / "plugin" / "rotopaint_nuke" / "startup", old=True)
    assert found["commands"] == ["Import shapes...", "Open in the standalone app"]
    assert found["found"] == {}
    assert found["said"] == []


@pytest.mark.parametrize("name", ["init.py", "menu.py", "rotopaint_nuke_bootstrap.py"])
def test_what_every_nuke_reads_is_written_for_python_3_7(name: str) -> None:
    text = (ROOT / "plugin" / "rotopaint_nuke" / "startup" / name).read_text()
    ast.parse(text, feature_version=(3, 7))


@pytest.mark.parametrize("named", [True, False])
def test_the_standalone_app_is_opened_by_the_products_own_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """By a checkout's virtual environment, or the Python that ROTOPAINT_PYTHON names; never by Nuke's."""
    checkout = tmp_path / "my checkout"
    shutil.copytree(PARTS["rotopaint_nuke"] / "rotopaint_nuke", checkout / "plugin" / "rotopaint_nuke")
    python = checkout / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    other = tmp_path / "other"
    other.touch()
    monkeypatch.setenv("ROTOPAINT_PYTHON", str(other)) if named else monkeypatch.delenv("ROTOPAINT_PYTHON", False)
    monkeypatch.setenv("PYTHONHOME", "/nuke")
    path = checkout / "plugin" / "rotopaint_nuke" / "startup" / "rotopaint_nuke_bootstrap.py"
    bootstrap = module_at(path)
    assert bootstrap._python() == str(other if named else python)
    environment = bootstrap._environment_without_nuke()
    assert "PYTHONHOME" not in environment
    assert str(checkout / "ui") in environment["PYTHONPATH"].split(os.pathsep)
