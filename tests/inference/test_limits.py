"""A pack made to hang, to ask for all memory or to end the process: refused or stopped in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.errors import InferenceError, PackError
from rotopaint_ai.inference import limits, proof
from rotopaint_ai.inference.pack import write_card
from rotopaint_ai.inference.session import open_session

from .conftest import PackMaker

onnx = pytest.importorskip("onnx")
EXAMPLE = {"x": np.zeros((1, 1), np.float32)}


def _model(path: Path, nodes: list[Any], constants: dict[str, Any]) -> Path:
    """A model from `x` [1,1] to `y`."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", kind, [1, 1])],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def _endless(path: Path) -> Path:
    """A loop that goes on while x is not below zero; it never changes x."""
    helper, tensor = onnx.helper, onnx.TensorProto
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["value"], ["next"]),
            helper.make_node("ReduceMax", ["value"], ["largest"], keepdims=0),
            helper.make_node("GreaterOrEqual", ["largest", "zero"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", tensor.INT64, []),
            helper.make_tensor_value_info("going", tensor.BOOL, []),
            helper.make_tensor_value_info("value", tensor.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more", tensor.BOOL, []),
            helper.make_tensor_value_info("next", tensor.FLOAT, None),
        ],
    )
    loop = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    return _model(path, [loop], {"yes": np.array(True), "zero": np.float32(0)})


def _huge(path: Path) -> Path:
    """Spreads x over 40 GB."""
    nodes = [
        onnx.helper.make_node("Expand", ["x", "size"], ["spread"]),
        onnx.helper.make_node("ReduceSum", ["spread"], ["y"], keepdims=0),
    ]
    return _model(path, nodes, {"size": np.array([100_000, 100_000])})


def test_a_loop_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_S", 0.2)
    monkeypatch.setattr(limits, "TICK_S", 0.05)
    path = _endless(tmp_path / "loop.onnx")
    session = open_session(path, device="cpu", threads=1, example={"x": np.full((1, 1), -1, np.float32)})
    with pytest.raises(InferenceError, match=r"^loop.onnx: could not run .*has not answered for 0 s; .* another pack"):
        session.run(("y",), EXAMPLE)
    assert session.run(("y",), {"x": np.full((1, 1), -2, np.float32)})[0] == -2  # what ends is let be


def test_a_node_that_never_ends_ends_the_program(tmp_path: Path) -> None:
    """A product of two matrices of whole numbers, 2e11 operations in one node: nothing stops it but the process's end.

    The node is the graph's only one, so that onnxruntime never looks whether it has been asked to stop.
    """
    helper, kind = onnx.helper, onnx.TensorProto.INT64
    ends = [helper.make_tensor_value_info(name, kind, None) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "made", ends[:1], ends[1:])
    path = tmp_path / "node.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    )
    program = f"""
import numpy as np, onnxruntime
from rotopaint_ai.inference import limits
limits.LIMIT_S, limits.GRACE_S, limits.TICK_S = 1.0, 0.2, 0.05
limits.end_process_when_stuck()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession({str(path)!r}, options, providers=["CPUExecutionProvider"])
x = np.ones((6_000, 6_000), np.int64)
with limits.limited_call() as call:
    session.run(["y"], {{"x": x}}, call)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert ended.returncode == limits.STUCK, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("rotopaint: a model has not answered for 1 s and cannot be stopped")


def test_a_process_that_was_held_up_in_a_call_goes_on(tmp_path: Path) -> None:
    """Ctrl-Z and fg, or a farm that lets another job go before: the call has not taken that time."""
    program = """
import sys, time
from rotopaint_ai.inference import limits
limits.LIMIT_S, limits.GRACE_S, limits.TICK_S = 2.0, 1.0, 0.05
limits.end_process_when_stuck()
with limits.limited_call() as call:
    print("in it", flush=True)
    sys.stdin.readline()
    time.sleep(0.3)
    print(call.terminate)
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "in it\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        process.stdin.write("\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "False\n"
    assert process.returncode == 0


def test_a_model_that_asks_for_all_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match=r"huge.onnx: .*wants more than 8 GB; use another pack"):
        open_session(_huge(tmp_path / "huge.onnx"), device="cpu", threads=1, example=EXAMPLE)


def test_a_pack_that_never_opens_is_refused_and_one_that_does_is_remembered(
    make_pack: PackMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "user_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(proof, "_known", set())
    folder = make_pack()
    files = json.loads((folder / "card.json").read_text(encoding="utf-8"))["files"]
    monkeypatch.setattr(proof, "LIMIT_S", 0.02)
    began = time.monotonic()
    with pytest.raises(PackError, match=r"tiny: its models have not opened within 0 s"):
        proof.prove(folder, files)
    assert time.monotonic() - began < 60
    monkeypatch.setattr(proof, "LIMIT_S", 120)
    proof.prove(folder, files)
    monkeypatch.setattr(proof, "_known", set())
    monkeypatch.setattr(proof, "_try_to_open", lambda folder: pytest.fail("it has opened before"))
    proof.prove(folder, files)


def test_what_a_pack_is_refused_for_in_its_own_process_is_said(
    make_pack: PackMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "user_cache", lambda: tmp_path / "cache")
    folder = make_pack()
    (folder / "shapes.onnx").write_bytes(b"no model")
    files = write_card(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))["files"]
    with pytest.raises(PackError, match=r"^\S*shapes.onnx: not an ONNX model that can be loaded"):
        proof.prove(folder, files)
    assert not (tmp_path / "cache").exists()


def test_how_a_process_ended_is_said_in_words() -> None:
    assert proof._end_words(-11) == "the process that tried ended by SIGSEGV"
    assert proof._end_words(1) == "the process that tried ended with 1"
