"""A pack trained from a pack with a learned fill keeps it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from rotopaint_ai.files import file_sha256
from rotopaint_ai.inference.pack import CARD, FILL, find_pack, load_pack
from rotopaint_ai.training.models.backbone import find_part, find_shared_models
from rotopaint_ai.training.pack import train as making


def test_the_shipped_pack_has_a_fill_and_a_pack_from_nothing_none(tmp_path: Path) -> None:
    assert find_part(None, FILL) == find_pack(None) / FILL
    assert load_pack(None).card["training"]["fill"]["steps"] > 0
    assert find_part("none", FILL) is None
    shutil.copytree(find_pack(None), tmp_path / "pack")
    (tmp_path / "pack" / FILL).unlink()
    assert find_part(tmp_path / "pack", FILL) is None


def test_a_pack_is_written_with_the_fill_it_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def as_file(model: object, path: Path, *rest: object, **more: object) -> float:
        path.write_bytes(b"a graph")
        return 0.0

    monkeypatch.setattr(making, "export_checked", as_file)
    monkeypatch.setattr(making, "save_weights", lambda *given: None)
    crops: Any = type("Net", (), {"net": None})
    faces = (np.zeros((1, 8, 8, 3), np.float32), np.zeros((1, 4, 2), np.float32))
    making.write_pack(
        tmp_path / "character",
        sheet=load_pack(None).sheet,
        crop_model=crops,
        shape_model=None,
        places=np.zeros((4, 2), np.float32),
        recipe_yaml="",
        samples=faces,
        card={"name": "character", "input_size": 8, "crop_margin": 1.3},
        others=find_shared_models(None),
    )
    written = tmp_path / "character" / FILL
    assert written.read_bytes() == (find_pack(None) / FILL).read_bytes()
    card = json.loads((tmp_path / "character" / CARD).read_text())
    assert card["files"][FILL] == file_sha256(written)


def test_a_fill_of_an_earlier_version_is_not_handed_on(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    shutil.copytree(find_pack(None), tmp_path / "pack")
    assert (tmp_path / "pack" / FILL) in find_shared_models(tmp_path / "pack")
    shapes = {"strip": ["N", "T", "S", 12], "answer": ["N", "T", "S", 7]}
    given, made = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items())
    weights = onnx.numpy_helper.from_array(np.ones((12, 7), np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["strip", "w"], ["answer"])], "fill", [given], [made], [weights]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "pack" / FILL)
    assert (tmp_path / "pack" / FILL) not in find_shared_models(tmp_path / "pack")
