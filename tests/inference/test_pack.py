"""Packs: written by training, loaded when everything fits, refused in one line when it does not."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.errors import PackError
from rotopaint_ai.files import file_sha256
from rotopaint_ai.inference import pack as packs
from rotopaint_ai.inference.models import open_fill, open_models
from rotopaint_ai.inference.pack import FILL, SEAM_CROP_PX, SEAM_FEATURES, find_pack, load_pack, write_card

from .conftest import SHEET, SIZE, PackMaker


def test_a_pack_comes_back_as_written(make_pack: PackMaker) -> None:
    folder = make_pack()
    pack = load_pack(folder)
    assert (pack.name, pack.sheet, pack.input_size, pack.crop_margin) == ("tiny", SHEET, SIZE, 1.3)
    assert pack.landmarks_path.is_file()
    assert pack.shapes_path.is_file()
    assert pack.seam_path is None
    digest = hashlib.sha256((folder / "shapes.onnx").read_bytes()).hexdigest()
    assert pack.card["files"]["shapes.onnx"] == digest


def test_a_seam_model_is_optional_and_has_to_fit(make_pack: PackMaker) -> None:
    folder = make_pack()
    assert load_pack(folder).seam_path is None
    (folder / "seam.onnx").write_bytes((folder / "shapes.onnx").read_bytes())
    with pytest.raises(PackError, match=r"holds no hash of seam\.onnx"):
        load_pack(folder)
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    with pytest.raises(PackError, match=r"seam\.onnx: input 'strip' is missing"):
        load_pack(folder)


def test_a_seam_model_that_reads_features_wants_their_network(make_pack: PackMaker) -> None:
    folder, shipped = make_pack(), load_pack()
    assert shipped.seam_path is not None
    assert shipped.seam_features_path is not None
    shutil.copy(shipped.seam_path, folder)
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    with pytest.raises(PackError, match=r"seam_features\.onnx is missing, which its seam\.onnx reads"):
        load_pack(folder)
    shutil.copy(folder / "shapes.onnx", folder / SEAM_FEATURES)
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    with pytest.raises(PackError, match=r"seam_features\.onnx: input 'crop' is missing"):
        load_pack(folder)
    shutil.copy(shipped.seam_features_path, folder)
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    seams = open_models(load_pack(folder), device="cpu", threads=1).find_seams
    assert seams is not None
    assert seams.features(np.zeros((SEAM_CROP_PX, SEAM_CROP_PX, 3), np.uint8)) is not None


def test_the_landmark_model_has_to_fit(make_pack: PackMaker) -> None:
    folder = make_pack()
    (folder / "landmarks.onnx").write_bytes((folder / "shapes.onnx").read_bytes())
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    with pytest.raises(PackError, match=r"landmarks\.onnx: input 'crop' is missing"):
        load_pack(folder)


def _fill_network(n_channels: int, n_answers: int) -> bytes:
    """A network with a fill's names and sizes: one matrix product."""
    onnx = pytest.importorskip("onnx")
    helper, sizes = onnx.helper, ["N", "T", "S"]
    given = helper.make_tensor_value_info("strip", onnx.TensorProto.FLOAT, [*sizes, n_channels])
    made = helper.make_tensor_value_info("answer", onnx.TensorProto.FLOAT, [*sizes, n_answers])
    weights = onnx.numpy_helper.from_array(np.ones((n_channels, n_answers), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["strip", "w"], ["answer"])], "f", [given], [made], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model.SerializeToString())


def _with_fill(folder: Path, n_channels: int, n_answers: int) -> Path:
    (folder / FILL).write_bytes(_fill_network(n_channels, n_answers))
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    return folder / FILL


@pytest.mark.parametrize("earlier", [None, (11, 7), (12, 7)])
def test_a_pack_without_a_fill_or_with_an_earlier_one_uses_the_shipped_fill(
    make_pack: PackMaker, earlier: tuple[int, int] | None
) -> None:
    folder = make_pack()
    if earlier is not None:
        _with_fill(folder, *earlier)
    pack, shipped = load_pack(folder), find_pack(None) / FILL
    assert pack.fill_path == shipped
    assert pack.files[FILL] == file_sha256(shipped)
    assert {name: digest for name, digest in pack.files.items() if name != FILL} == {
        name: digest for name, digest in pack.card["files"].items() if name != FILL
    }
    assert (pack.note is None) == (earlier is None)
    fill = open_fill(pack)
    assert fill is not None
    assert fill(np.zeros((1, 32, 32, 11), np.float32)).shape == (1, 32, 32, 6)


def test_a_pack_keeps_its_own_fill_of_today(make_pack: PackMaker) -> None:
    folder = make_pack()
    own = _with_fill(folder, 11, 6)
    pack = load_pack(folder)
    assert pack.fill_path == own
    assert pack.files == pack.card["files"]


def test_without_a_shipped_pack_there_is_no_fill_and_an_earlier_one_is_refused(
    make_pack: PackMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "shipped_places", lambda: [])
    folder = make_pack()
    assert load_pack(folder).fill_path is None
    _with_fill(folder, 12, 7)
    with pytest.raises(PackError, match=r"fill\.onnx.*of another version of the product"):
        load_pack(folder)


def test_an_altered_shipped_fill_is_not_borrowed(
    make_pack: PackMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(find_pack(None), tmp_path / "shipped" / "puppet")
    monkeypatch.setattr(packs, "shipped_places", lambda: [tmp_path / "shipped"])
    folder = make_pack()
    assert load_pack(folder).fill_path == tmp_path / "shipped" / "puppet" / FILL
    (tmp_path / "shipped" / "puppet" / FILL).write_bytes(_fill_network(11, 6))
    assert load_pack(folder).fill_path is None


def test_a_fill_of_another_version_is_refused_with_what_to_do(make_pack: PackMaker) -> None:
    folder = make_pack()
    (folder / "fill.onnx").write_bytes((folder / "shapes.onnx").read_bytes())
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    with pytest.raises(PackError, match=r"fill\.onnx: input 'strip' is missing.*train the pack again, or put a fill"):
        load_pack(folder)


def _front_network(outputs: dict[str, tuple[str | int, ...]], side: str | int = 16) -> bytes:
    """A network from `crop` to the crop's first channel under some names."""
    onnx = pytest.importorskip("onnx")
    helper, tensor = onnx.helper, onnx.TensorProto
    first = onnx.numpy_helper.from_array(np.array(0, np.int64), "first")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["crop", "first"], [name], axis=3) for name in outputs],
        "front",
        [helper.make_tensor_value_info("crop", tensor.FLOAT, ["N", side, 16, 3])],
        [helper.make_tensor_value_info(name, tensor.FLOAT, shape) for name, shape in outputs.items()],
        [first],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def _with_front(folder: Path, network: bytes) -> Path:
    (folder / "matte.onnx").write_bytes(network)
    write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    return folder


def test_a_segmentation_network_is_optional_hashed_and_opens(make_pack: PackMaker) -> None:
    folder = make_pack()
    assert load_pack(folder).front_path is None
    assert open_models(load_pack(folder), device="cpu").find_front is None
    shape = ("N", 16, 16)
    _with_front(folder, _front_network({"front": shape, "skin": shape, "edge": shape}))
    models = open_models(load_pack(folder), device="cpu")
    assert "matte.onnx" in models.pack.card["files"]
    assert models.find_front is not None
    assert models.find_front.size == 16
    crops = np.random.default_rng(0).random((2, 16, 16, 3), np.float32)
    assert np.array_equal(models.find_front(crops), crops[..., 0])
    models.close()
    (folder / "matte.onnx").write_bytes(b"other")
    with pytest.raises(PackError, match=r"matte\.onnx: altered since the card was written"):
        load_pack(folder)


@pytest.mark.parametrize(
    ("network", "refusal"),
    [
        (_front_network({"seam": ("N", 16, 16)}), r"output 'front' is missing, found 'seam'.*train it again, or take"),
        (_front_network({"front": ("N", "S", 16)}, side="S"), "input 'crop' is no square of fixed size"),
        (_front_network({"front": ("N", 8, 16)}, side=8), "input 'crop' is no square of fixed size"),
    ],
)
def test_a_segmentation_network_that_does_not_fit_is_refused_in_one_line(
    make_pack: PackMaker, network: bytes, refusal: str
) -> None:
    with pytest.raises(PackError, match=rf"matte\.onnx: {refusal}") as refused:
        load_pack(_with_front(make_pack(), network))
    assert "\n" not in str(refused.value)


def test_an_altered_file_is_refused_by_name(make_pack: PackMaker) -> None:
    folder = make_pack()
    sheet = folder / "sheet.yaml"
    sheet.write_text(sheet.read_text(encoding="utf-8").replace("tiny", "tidy"), encoding="utf-8")
    with pytest.raises(PackError, match=r"sheet\.yaml: altered since the card was written"):
        load_pack(folder)


@pytest.mark.parametrize("name", ["sheet.yaml", "landmarks.onnx", "shapes.onnx", "card.json"])
def test_a_missing_file_is_named(make_pack: PackMaker, name: str) -> None:
    folder = make_pack()
    (folder / name).unlink()
    with pytest.raises(PackError, match=name.replace(".", r"\.")):
        load_pack(folder)


def test_weights_beside_the_card_are_refused(make_pack: PackMaker) -> None:
    folder = make_pack()
    (folder / "landmarks.onnx.data").write_bytes(b"weights")
    with pytest.raises(PackError, match=r"holds no hash of landmarks\.onnx\.data"):
        load_pack(folder)


@pytest.mark.parametrize(("location", "refusal"), [("weights.bin", "holds no hash of"), ("../w", "wanted a plain")])
def test_weights_of_any_name_beside_a_model_are_hashed(make_pack: PackMaker, location: str, refusal: str) -> None:
    onnx = pytest.importorskip("onnx")
    folder = make_pack()
    model = onnx.load(folder / "landmarks.onnx")
    values = np.arange(300, dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "extra"))
    onnx.external_data_helper.set_external_data(model.graph.initializer[-1], location)
    model.graph.initializer[-1].ClearField("raw_data")
    (folder / "landmarks.onnx").write_bytes(model.SerializeToString())
    (folder / location).write_bytes(values.tobytes())
    _edit(folder, lambda card: card["files"].update({"landmarks.onnx": file_sha256(folder / "landmarks.onnx")}))
    with pytest.raises(PackError, match=refusal):
        load_pack(folder)


def test_a_file_outside_the_folder_is_refused(make_pack: PackMaker) -> None:
    folder = make_pack()
    _edit(folder, lambda card: card["files"].update({"../other.onnx": "0"}))
    with pytest.raises(PackError, match="not a plain name"):
        load_pack(folder)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("format", "x", "wanted format 'rotopaint-pack'"),
        ("version", 2, "version 2"),
        ("input_size", "big", "wanted a whole number"),
        ("input_size", 15, "wanted 16 to 2048"),
        ("input_size", 2049, "wanted 16 to 2048"),
        ("input_size", 16, r"wanted \[N, 16, 16, 3\]"),  # a valid size, of another model
        ("input_size", 2048, r"wanted \[N, 2048, 2048, 3\]"),
        ("crop_margin", 0.99, "wanted 1 to 4"),
        ("crop_margin", 4.01, "wanted 1 to 4"),
        ("crop_margin", None, "wanted a number"),
        ("name", 3, "wanted text"),
        ("input_size", 64, r"'crop' is \[N, 32, 32, 3\]; wanted \[N, 64, 64, 3\]"),
    ],
)
def test_a_wrong_card_is_refused(make_pack: PackMaker, field: str, value: object, reason: str) -> None:
    folder = make_pack()
    _edit(folder, lambda card: card.update({field: value}))
    with pytest.raises(PackError, match=reason):
        load_pack(folder)


@pytest.mark.parametrize("margin", [1.0, 4.0])
def test_the_bounds_of_a_crop_margin_are_margins(make_pack: PackMaker, margin: float) -> None:
    folder = make_pack()
    _edit(folder, lambda card: card.update({"crop_margin": margin}))
    assert load_pack(folder).crop_margin == margin


def test_a_model_that_does_not_fit_the_sheet_is_refused(make_pack: PackMaker) -> None:
    folder = make_pack(n_landmarks=4)
    with pytest.raises(PackError, match=r"'landmarks' is \[N, 4, 2\]; wanted \[N, 3, 2\]"):
        load_pack(folder)


def test_a_swapped_model_is_refused(make_pack: PackMaker) -> None:
    folder = make_pack()
    (folder / "landmarks.onnx").write_bytes((folder / "shapes.onnx").read_bytes())
    write_card(folder, {"name": "tiny", "input_size": SIZE, "crop_margin": 1.3})
    with pytest.raises(PackError, match="input 'crop' is missing, found 'landmarks'"):
        load_pack(folder)


def test_damaged_model_bytes_are_refused_in_one_line(make_pack: PackMaker) -> None:
    folder = make_pack()
    (folder / "landmarks.onnx").write_bytes(b"not a model")
    write_card(folder, {"name": "tiny", "input_size": SIZE, "crop_margin": 1.3})
    with pytest.raises(PackError, match="not an ONNX model") as caught:
        load_pack(folder)
    assert "\n" not in str(caught.value)


def test_a_card_without_its_models_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"sheet\.yaml is missing"):
        write_card(tmp_path, {"name": "a", "input_size": 64, "crop_margin": 1.3})


def test_packs_are_found_by_name(make_pack: PackMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_pack("mine")
    monkeypatch.setenv("ROTOPAINT_MODELS", str(folder.parent))
    assert find_pack("mine") == folder
    assert find_pack(folder / "card.json") == folder
    with pytest.raises(PackError, match=r"'other': no such folder or name; installed packs: .*mine"):
        find_pack("other")
    assert find_pack("default") == find_pack()
    (folder.parent / "default").symlink_to(folder)
    assert find_pack("default") == folder.parent / "default"


def _edit(folder: Path, change: Any) -> None:
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    change(card)
    (folder / "card.json").write_text(json.dumps(card), encoding="utf-8")
