"""The sdist and its wheel: a package index would accept them, and the wheel works without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "rotopaint_ai": ROOT,
    "rotopaint_ui": ROOT / "ui",
    "rotopaint_nuke": ROOT / "plugin",
    "rotopaint_models": ROOT / "models",
}
UNPACKED = shutil.ignore_patterns("__pycache__", ".*", "build", "*.egg-info", "node_modules")


def _run(*words: str, cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ROTOPAINT_MODELS")}
    done = subprocess.run(words, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist and the wheel made from it; built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("rotopaint_ai", "ui", "plugin", "models", "docs"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=UNPACKED)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    build = ("-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(folder / "source"))
    _run(sys.executable, *build, cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def test_a_package_index_would_take_them(built: Path, wheel: Path) -> None:
    files = [str(path) for path in sorted(built.iterdir())]
    assert [path.rsplit(".", 1)[1] for path in files] == ["whl", "gz"]
    _run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=built)
    _run(sys.executable, "-m", "check_wheel_contents", "--config", str(ROOT / "pyproject.toml"), str(wheel), cwd=built)


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    for package, place in PACKAGES.items():
        files = [path for path in (place / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {path.relative_to(place).as_posix() for path in files} <= held
    assert {name.split("/")[0].removesuffix(".py") for name in held if "-" not in name.split("/")[0]} == set(PACKAGES)


def test_what_the_wheel_installs_traces_and_paints(wheel: Path, tmp_path: Path) -> None:
    """The wheel is installed into a folder without its dependencies, which come from the tests' environment."""
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site"), str(wheel))
    _run(sys.executable, *install, cwd=tmp_path)
    place = {"PYTHONPATH": str(tmp_path / "site")}
    where = _run(sys.executable, "-c", "import rotopaint_ai; print(rotopaint_ai.__file__)", cwd=tmp_path, **place)
    assert Path(where.strip()).is_relative_to(tmp_path / "site")
    sample = tmp_path / "site" / "rotopaint_models" / "sample" / "plate.####.exr"
    words = (str(sample), "--frames", "1001", "--crop", "342,142,280,297", "--out", "shot")
    _run(sys.executable, "-m", "rotopaint_ai", "run", *words, cwd=tmp_path, **place)
    assert json.loads((tmp_path / "shot" / "run.json").read_text())["frames"]["done"] == 1
    assert (tmp_path / "shot" / "clean" / "plate.1001.exr").is_file()
    program = tmp_path / "site" / "bin" / "rotopaint"
    assert _run(sys.executable, str(program), "--version", cwd=tmp_path, **place).startswith("rotopaint ")
