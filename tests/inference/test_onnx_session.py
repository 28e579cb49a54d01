"""Sessions: correct numbers, the true device, and models as callables."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.errors import DeviceError, InferenceError, PackError
from rotopaint_ai.inference import onnx_session
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.onnx_session import open_session, share_of_nodes
from rotopaint_ai.inference.pack import load_pack

from .conftest import SIZE, PackMaker

EXAMPLE = {"crop": np.zeros((1, SIZE, SIZE, 3), np.float32)}


def has_gpu() -> bool:
    import onnxruntime

    return any(name in onnxruntime.get_available_providers() for name in ("CUDAExecutionProvider",))


@pytest.mark.parametrize("batch", ["N", 1, 2])
def test_models_give_the_numbers_of_their_graphs(
    make_pack: PackMaker, batch: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_session, "time", SimpleNamespace(perf_counter=partial(next, count(0.0, 0.25))))
    models = open_models(load_pack(make_pack(batch=batch)), device="cpu", threads=1)
    crops = np.stack([np.full((SIZE, SIZE, 3), value, np.float32) for value in (0.25, 0.5, 1.0)])
    found = models.detect(crops)
    wanted = np.array([[0.25], [0.5], [1.0]])[:, :, None] * np.array([[4, 8], [8, 16], [12, 24]])
    np.testing.assert_allclose(found.landmarks_NLC, wanted, rtol=1e-6)
    np.testing.assert_allclose(found.expected_error_NL, np.array([[0.25], [0.5], [1.0]]) * [[1.5] * 3], rtol=1e-6)
    np.testing.assert_array_equal(found.visible_NL, np.ones((3, 3)))
    predicted = models.predict_shapes(found.landmarks_NLC)
    np.testing.assert_allclose(predicted.points_NPK[2, :, :2], [[24, 48]] * 6, rtol=1e-6)
    np.testing.assert_array_equal(predicted.width_NS, np.full((3, 2), 2))
    assert models.ms_per_frame == 2 * 250  # each model reads the clock before and after


def test_a_closed_model_keeps_its_metadata_and_cannot_run(make_pack: PackMaker) -> None:
    models = open_models(load_pack(make_pack()), device="cpu", threads=1)
    models.detect(EXAMPLE["crop"])
    note = models.device_note
    models.close()
    assert models.device_note == note
    assert models.detect.session.ms_per_call is not None
    with pytest.raises(InferenceError, match=r"landmarks\.onnx: could not run on cpu \(it was closed\)"):
        models.detect(EXAMPLE["crop"])


def test_cpu_is_called_cpu(make_pack: PackMaker) -> None:
    session = open_session(make_pack() / "landmarks.onnx", device="cpu", threads=1, example=EXAMPLE)
    assert (session.device, session.provider, session.note) == ("cpu", "CPUExecutionProvider", "CPU")


@pytest.mark.skipif(has_gpu(), reason="this onnxruntime has a CUDA provider")
def test_auto_reports_that_no_gpu_was_available(make_pack: PackMaker) -> None:
    session = open_session(make_pack() / "landmarks.onnx", threads=1, example=EXAMPLE)
    assert session.note == "CPU (no CUDA provider in this onnxruntime)"


@pytest.mark.skipif(has_gpu(), reason="this onnxruntime has a CUDA provider")
def test_a_demanded_gpu_that_is_not_there_is_an_error(make_pack: PackMaker) -> None:
    with pytest.raises(DeviceError, match=r"device cuda: this onnxruntime has only .*CPU.* install onnxruntime-gpu"):
        open_session(make_pack() / "landmarks.onnx", device="cuda", example=EXAMPLE)


class FakeProviders:
    """onnxruntime falls back silently: it lists the provider, and the session runs on the CPU."""

    def __init__(self, session: object) -> None:
        self.session = session

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


def test_a_silent_fallback_is_detected(make_pack: PackMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    create = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda path, options, providers: create(path, options, providers=providers[-1:]),
    )
    path = make_pack() / "landmarks.onnx"
    with pytest.raises(DeviceError, match="CUDAExecutionProvider is installed and did not start"):
        open_session(path, device="cuda", example=EXAMPLE)
    session = open_session(path, device="auto", threads=1, example=EXAMPLE)
    assert session.device == "cpu"
    assert session.note.startswith("CPU (device cuda: CUDAExecutionProvider is installed and did not start")


def test_cuda_computes_in_whole_float32_without_a_search_for_each_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TF32 moved landmarks by 0.15 px on an H200, and the kernel search took 0.3 s for each new length of a strip."""
    import onnxruntime

    asked: list[Any] = []
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda path, options, providers: asked.append(providers))
    onnx_session._create_session(tmp_path / "any.onnx", "cuda", 1, False)
    (provider, options), rest = asked[0]
    assert (provider, rest) == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert (options["use_tf32"], options["cudnn_conv_algo_search"]) == ("0", "HEURISTIC")


def test_the_profile_shows_where_nodes_ran() -> None:
    events = [{"args": {"provider": "CUDAExecutionProvider"}}] * 3 + [
        {"args": {"provider": "CPUExecutionProvider"}},
        {},
    ]
    assert share_of_nodes(events, "CUDAExecutionProvider") == 0.75
    assert share_of_nodes([], "CUDAExecutionProvider") == 0.0


@pytest.mark.parametrize(
    ("name", "share", "refusals", "asked", "note"),
    [
        ("cpu", 1.0, [], "cpu", "CPU"),
        ("cpu", 1.0, ["no driver"], "auto", "CPU (no driver)"),
        ("cuda", 1.0, [], "auto", "CUDA"),
        ("cuda", 0.75, [], "cuda", "CUDA (75% of nodes, rest on CPU)"),
    ],
)
def test_a_note_names_the_device_of_the_nodes(
    name: str, share: float, refusals: list[str], asked: str, note: str
) -> None:
    assert onnx_session._device_note(name, share, refusals, asked) == note


@pytest.mark.parametrize(("device", "kind"), [("cpu", InferenceError), ("cuda", DeviceError)])
def test_a_session_that_cannot_be_created_is_the_devices_fault_on_a_gpu_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, kind: type[Exception]
) -> None:
    """`auto` tries the next device only after a DeviceError."""
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    (tmp_path / "none.onnx").write_bytes(b"no model")
    with pytest.raises(kind, match=f"could not be opened on {device}"):
        onnx_session._create_session(tmp_path / "none.onnx", device, 1, False)


def test_an_unknown_device_is_refused(make_pack: PackMaker) -> None:
    with pytest.raises(DeviceError, match="device 'gpu': not known; wanted one of auto, cpu, cuda"):
        open_session(make_pack() / "landmarks.onnx", device="gpu", example=EXAMPLE)


def test_a_call_of_the_wrong_shape_is_one_line(make_pack: PackMaker) -> None:
    session = open_session(make_pack() / "landmarks.onnx", device="cpu", threads=1, example=EXAMPLE)
    with pytest.raises(InferenceError, match=r"landmarks\.onnx: could not run on cpu"):
        session.run(["landmarks"], {"crop": np.zeros((1, 8, 8, 3), np.float32)})


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises((InferenceError, PackError), match=r"none\.onnx"):
        open_session(tmp_path / "none.onnx", device="cpu", example=EXAMPLE)


def test_importing_the_room_does_not_open_onnxruntime() -> None:
    code = "import rotopaint_ai.inference.models, sys; print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_models_leave_nothing_in_the_home_folder(make_pack: PackMaker, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    work = "from pathlib import Path; from rotopaint_ai.inference.onnx_session import load_signature"
    model = make_pack() / "landmarks.onnx"
    call = f"{work}; load_signature(Path({str(model)!r}))"
    outside = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY" and not k.startswith("XDG_")}
    subprocess.run([sys.executable, "-c", call], env=outside | {"HOME": str(home)}, check=True, timeout=120)
    assert list(home.rglob("*")) == []
