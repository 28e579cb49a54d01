"""A pack made to hang, to take all memory or to end its process: refused or stopped in one line.

No result depends on speed: what a test waits for never comes, or comes after any time.
"""

from __future__ import annotations

import gc
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.errors import InferenceError
from rotopaint_ai.inference import call_limits, process
from rotopaint_ai.inference.messages import Lane, Message
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.onnx_session import ModelSession
from rotopaint_ai.inference.pack import find_pack, load_pack
from rotopaint_ai.inference.process import end_process, open_model, usage

onnx = pytest.importorskip("onnx")
EXAMPLE = {"x": np.zeros((1, 1), np.float32)}
ENDS = {"x": np.full((1, 1), -1, np.float32)}  # what the endless loop returns at once


@pytest.fixture(autouse=True)
def a_process_of_its_own() -> Iterator[None]:
    end_process()
    yield
    end_process()


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
    """A loop that runs while x is not below zero; it never changes x."""
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


def _open_loop(folder: Path) -> ModelSession:
    return open_model(_endless(folder / "loop.onnx"), device="cpu", threads=1, example=ENDS)


def _huge(path: Path) -> Path:
    """Expands x to 40 GB."""
    nodes = [
        onnx.helper.make_node("Expand", ["x", "size"], ["spread"]),
        onnx.helper.make_node("ReduceSum", ["spread"], ["y"], keepdims=0),
    ]
    return _model(path, nodes, {"size": np.array([100_000, 100_000])})


def test_a_call_that_never_ends_is_stopped_and_the_next_model_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, other = _open_loop(tmp_path), _open_loop(tmp_path)
    monkeypatch.setattr(call_limits, "LIMIT_S", 1.0)
    with pytest.raises(InferenceError, match=r"^loop.onnx: could not run .*has not answered for 1 s; .* another pack"):
        loop.run(("y",), EXAMPLE)
    with pytest.raises(InferenceError, match="has not answered for 1 s"):  # the reason why the model was lost
        other.run(("y",), ENDS)
    monkeypatch.undo()
    assert _open_loop(tmp_path).run(("y",), ENDS)[0] == -1


def test_a_model_that_never_opens_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_limits, "LIMIT_S", 1.0)
    with pytest.raises(InferenceError, match=r"loop.onnx: could not be opened \(it has not answered for 1 s"):
        open_model(_endless(tmp_path / "loop.onnx"), device="cpu", threads=1, example=EXAMPLE)


def test_models_answer_side_by_side_and_closing_ends_what_does_not(tmp_path: Path) -> None:
    loop, other, said = _open_loop(tmp_path), _open_loop(tmp_path), list[str]()

    def go_on() -> None:
        try:
            loop.run(("y",), EXAMPLE)
        except InferenceError as error:
            said.append(str(error))

    endless = threading.Thread(target=go_on)
    endless.start()
    for _ in range(20):
        assert other.run(("y",), ENDS)[0] == -1
    assert endless.is_alive()
    end_process()
    endless.join()
    assert said == ["loop.onnx: could not run on cpu (it was closed)"]


def test_the_end_of_a_process_is_described_in_words(tmp_path: Path) -> None:
    loop = _open_loop(tmp_path)
    os.kill(process._started[-1]._process.pid, signal.SIGSEGV)
    with pytest.raises(InferenceError, match=r"loop.onnx: could not run on cpu \(the process .* ended by SIGSEGV\)"):
        loop.run(("y",), ENDS)
    assert process.exit_reason(1) == "the process that ran it ended with 1"


def test_packs_that_ship_run_here_and_any_other_beside(tmp_path: Path) -> None:
    open_models(load_pack(), device="cpu", threads=1)
    assert not process._started or not process._started[-1].is_ours
    copy = shutil.copytree(find_pack(), tmp_path / "copy")
    models = open_models(load_pack(copy), device="cpu", threads=1)
    assert usage()["models"] == 6
    assert models.device_note == "CPU"


def test_a_model_without_references_is_closed(tmp_path: Path) -> None:
    first, second = _open_loop(tmp_path), _open_loop(tmp_path)
    assert usage()["models"] == 2
    first.close()
    assert usage()["models"] == 1
    del second
    gc.collect()
    assert usage()["models"] == 0


def test_a_process_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    first = _open_loop(tmp_path)
    ended = process._started[-1]
    end_process()
    second = _open_loop(tmp_path)
    assert ended not in process._started
    assert second.run(("y",), ENDS)[0].item() == -1
    first.close()


def test_endless_computation_ends_with_its_parent_process(tmp_path: Path) -> None:
    path = _endless(tmp_path / "loop.onnx")
    program = f"""
import numpy as np, threading
from pathlib import Path
from rotopaint_ai.inference import process
ends, endless = ({{"x": np.full((1, 1), value, np.float32)}} for value in (-1, 0))
model = process.open_model(Path({str(path)!r}), device="cpu", threads=1, example=ends)
threading.Thread(target=model.run, args=(("y",), endless)).start()
print(process._started[-1]._process.pid, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        computing = Path(f"/proc/{int(asking.stdout.readline())}")
        asking.kill()
    while computing.exists() and " Z " not in (computing / "stat").read_text():
        time.sleep(0.02)  # ends, or pytest's own limit ends it


def test_ctrl_c_reaches_only_the_parent_even_while_models_open(tmp_path: Path) -> None:
    _open_loop(tmp_path)
    assert os.getpgid(process._started[-1]._process.pid) != os.getpgid(0)


def test_a_forked_process_opens_its_own_models(tmp_path: Path) -> None:
    path = _endless(tmp_path / "loop.onnx")
    program = f"""
import numpy as np, os
from pathlib import Path
from rotopaint_ai.errors import InferenceError
from rotopaint_ai.inference import process
ends = {{"x": np.full((1, 1), -1, np.float32)}}
model = process.open_model(Path({str(path)!r}), device="cpu", threads=1, example=ends)
forked = os.fork()
if not forked:
    try:
        model.run(("y",), ends)
    except InferenceError as error:
        print(error, flush=True)
    again = process.open_model(Path({str(path)!r}), device="cpu", threads=1, example=ends)
    print(again.run(("y",), ends)[0].item(), flush=True)
    print(len(process._started), flush=True)  # the other one's is kept, so that it is not closed from here
    os._exit(0)
os.waitpid(forked, 0)
print(model.run(("y",), ends)[0].item())
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    first, *numbers = done.stdout.splitlines()
    assert "was opened by the process that this one was forked from; open it again here" in first
    assert numbers == ["-1.0", "2", "-1.0"]


def test_a_process_suspended_in_a_call_continues() -> None:
    """A suspended process (Ctrl-Z and fg, or preemption on a farm) must not count the time of its suspension."""
    program = """
import mmap, socket, sys, threading
from rotopaint_ai.inference import call_limits, process
from rotopaint_ai.inference.messages import Lane, Message
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import find_pack, load_pack
call_limits.LIMIT_S, call_limits.TICK_S = 2.0, 0.05
ours, theirs = socket.socketpair()
ours.settimeout(call_limits.TICK_S)
room = mmap.mmap(-1, 4096)
def answer():
    sys.stdin.readline()
    Lane(theirs, room, None).send(Message({"said": "late"}, {}))
threading.Thread(target=answer).start()
print("in it", flush=True)
print(Lane(ours, room, process._Timeout().tick).receive().facts["said"])
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as held:
        assert held.stdin is not None
        assert held.stdout is not None
        assert held.stdout.readline() == "in it\n"
        held.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        held.stdin.write("\n")
        held.stdin.flush()
        held.send_signal(signal.SIGCONT)
        assert held.stdout.read() == "late\n"
    assert held.returncode == 0


def test_a_model_that_asks_for_all_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match=r"huge.onnx: .*wants more than 8 GB; use another pack"):
        open_model(_huge(tmp_path / "huge.onnx"), device="cpu", threads=1, example=EXAMPLE)


@pytest.mark.parametrize("n_bytes", [16, 1 << 20])  # arrays through the socket, and through shared memory
def test_arrays_arrive_as_they_were_sent(n_bytes: int) -> None:
    ours, theirs = socket.socketpair()
    room = mmap.mmap(-1, n_bytes)
    sent = {
        "turned": np.arange(60_000, dtype=np.float32).reshape(300, 200).T,
        "one": np.float32(7.5),
        "none": np.zeros((0, 3), np.float32),
    }
    sender, receiver = (Lane(end, room, lambda: None) for end in (ours, theirs))
    thread = threading.Thread(target=sender.send, args=(Message({"n": 1}, sent),))
    thread.start()
    got = receiver.receive()
    thread.join()
    assert got.facts == {"n": 1}
    assert list(got.arrays) == list(sent)
    for name, array in sent.items():
        np.testing.assert_array_equal(got.arrays[name], array)
        assert got.arrays[name].shape == array.shape
    for lane in (sender, receiver):
        lane.close()


@pytest.mark.parametrize("text", ["7", '[{}, [["y", 3]], false]', '[{}, [["y", [1000000000000000000000]]], true]'])
def test_an_invalid_message_is_refused(text: str) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(len(text).to_bytes(8, "little") + text.encode())
    with pytest.raises(ValueError, match="a message of invalid form"):
        Lane(ours, mmap.mmap(-1, 16), lambda: None).receive()
    for end in (ours, theirs):
        end.close()


def test_a_broken_peer_cannot_request_memory() -> None:
    ours, theirs = socket.socketpair()
    for message in (b"\xff" * 8, (24).to_bytes(8, "little") + b'[{},[["y",[99999,99999]]'):
        theirs.sendall(message + b"]" * 9)
        with pytest.raises(ValueError, match=r"a message of|an array of|Expecting"):
            Lane(ours, mmap.mmap(-1, 16), lambda: None).receive()
    for end in (ours, theirs):
        end.close()
