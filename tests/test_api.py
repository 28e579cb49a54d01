"""The Python API by the examples of its page and its notebook, on the sample shot with the pack that ships."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import rotopaint_ai
from module_file import module_at
from rotopaint_ai import api
from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document, formats
from rotopaint_ai.inference.pack import find_pack
from rotopaint_ai.inference.sample import find_sample
from rotopaint_ai.plates import open_plate
from rotopaint_ai.stage.puppet_shot import write_linear_picture

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
BLOCK = re.compile(r"^```python( no-run)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [text for unrun, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if not unrun]
NOTEBOOK = PAGE.with_name("show_to_pack.ipynb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two frames of the sample in which the page's examples have run in order."""
    place = tmp_path_factory.mktemp("api")
    for frame in (1001, 1002):
        (place / f"plate.{frame}.exr").symlink_to(find_sample() / f"plate.{frame}.exr")
    (place / "puppet").symlink_to(find_pack("puppet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for text in EXAMPLES:
            exec(compile(text, str(PAGE), "exec"), {})
    return place


def test_a_run_gives_what_it_wrote(folder: Path) -> None:
    shot = rotopaint_ai.Shot.open(folder / "shot010")
    assert (shot.failed, shot.missing, shot.lost) == ({}, (), ())
    assert [path.name for path in shot.clean()] == ["plate.1001.exr", "plate.1002.exr"]
    assert shot.report.is_file()
    shapes = shot.shapes
    mattes = shot.mattes(1001)
    assert set(mattes) == {shape.name for shape in shapes.shapes}
    assert all(each.shape == (shapes.height, shapes.width) and each.dtype == np.float32 for each in mattes.values())
    assert mattes["face_outline"].max() == pytest.approx(1)
    assert all(0 <= each.min() <= each.max() <= 1.000001 for each in mattes.values())
    assert len(formats.read(folder / "shot010" / "shapes.setting")[0].shapes) == len(shapes.shapes)
    assert rotopaint_ai.Shot.open(folder / "shot020").clean() == ()


def test_mined_roto_is_a_data_set_that_packs_are_measured_on(folder: Path) -> None:
    found = api.evaluate("puppet", folder / "dataset", against="puppet")
    assert found.figures["n_samples"] == 2
    assert found.compared
    assert not found.is_worse


def test_errors_read_as_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"run.json: not the record of a run"):
        rotopaint_ai.Shot.open(tmp_path)
    with pytest.raises(UsageError, match="--export cube: not a format"):
        rotopaint_ai.Shot.open(folder / "shot010").export("cube")
    with pytest.raises(UsageError, match="frame 5555: wanted one of 1"):
        rotopaint_ai.Shot.open(folder / "shot010").mattes(5555)
    with pytest.raises(UsageError, match="--threads -1"):
        rotopaint_ai.run("p", out=tmp_path / "o", threads=-1)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        rotopaint_ai.walk  # type: ignore[attr-defined]  # noqa: B018


def test_the_example_that_trains_fits() -> None:
    (text,) = (text for unrun, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if unrun)
    calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
    ours = {ast.unparse(each.func): each for each in calls if ast.unparse(each.func).startswith("rotopaint_ai.")}
    assert set(ours) == {"rotopaint_ai.train", "rotopaint_ai.evaluate"}
    for name, call in ours.items():
        named = {str(each.arg): each.value for each in call.keywords}
        inspect.signature(getattr(rotopaint_ai, name.removeprefix("rotopaint_ai."))).bind(*call.args, **named)


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The notebook's show: three shots of two sample frames; its trained pack is replaced by the shipped one."""
    truth = document.read(find_sample() / "truth.roto.json")
    for shot in ("sh010", "sh020", "sh030"):
        (tmp_path / shot).mkdir()
        formats.write(tmp_path / shot / "shapes.nk", truth)
        for frame in (1011, 1012):
            source = find_sample() / f"plate.{frame}.exr"
            write_linear_picture(tmp_path / shot / f"plate.{frame}.jpg", open_plate(str(source)).read(frame).rgb)
    (tmp_path / "pip").symlink_to(find_pack("puppet"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_notebook_goes_from_a_show_to_a_traced_shot(show: Path) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    state: dict[str, object] = {"SHOTS": ["sh010", "sh020", "sh030"]}
    for cell in cells:
        if "long" not in cell["metadata"].get("tags", ()):
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), state)
    assert (show / "traced.png").stat().st_size > 10_000
    assert (show / "traced" / "report" / "index.html").is_file()


def test_the_notebook_shows_what_its_cells_gave() -> None:
    """`scripts/notebook.py` writes the outputs; cells that only define or render have none."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    shown = [each for cell in cells for each in cell["outputs"]]
    texts = "".join("".join(each.get("text", each.get("data", {}).get("text/plain", ""))) for each in shown)
    assert "val" in texts  # samples by split
    assert "(was " in texts  # the gate
    assert any("image/jpeg" in each.get("data", {}) for each in shown)
    assert "/tmp" not in texts


def test_the_notebooks_script_keeps_text_values_and_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = module_at(PAGE.parents[1] / "scripts" / "notebook.py")
    grey = "numpy.full((90, 320, 3), 128, numpy.uint8)"
    picture = f"import cv2, numpy, pathlib\nprint('seen')\ncv2.imwrite('traced.png', {grey})"
    cells = [
        {"cell_type": "markdown", "source": ["# A"]},
        {"cell_type": "code", "metadata": {}, "source": ["x = 20\n", "x + 3"], "outputs": []},
        {"cell_type": "code", "metadata": {"tags": ["picture"]}, "source": [picture], "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": ["str(pathlib.Path.cwd() / 'a')"], "outputs": []},
    ]
    made = script.renewed_notebook({"cells": cells}, tmp_path)["cells"]
    assert made[0] == cells[0]
    assert made[1]["outputs"][0]["data"] == {"text/plain": ["23"]}
    assert made[2]["outputs"][0]["text"] == ["seen\n"]
    assert made[2]["outputs"][1]["data"]["image/jpeg"].startswith("/9j/")
    assert made[3]["outputs"][0]["data"] == {"text/plain": ["'a'"]}
