"""Run ONNX models. Only this file imports onnxruntime, and only when a session is opened.

`process` runs untrusted models of packs through this module in another process. Models that we export ourselves run
here.

The reported device is the one that really ran: a provider counts only after it has loaded, has executed a call, and
(except on the CPU) a profile of that call shows that its nodes ran there.

N batch, S side of a square crop, L landmarks, P control points of all shapes.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DeviceError, InferenceError, PackError
from rotopaint_ai.inference import call_limits

Array = npt.NDArray[np.float32]
Shape = tuple[int | str | None, ...]

# Device name for artists -> onnxruntime's provider, and the package that contains it.
PROVIDERS: Mapping[str, tuple[str, str]] = {
    "cpu": ("CPUExecutionProvider", "onnxruntime"),
    "cuda": ("CUDAExecutionProvider", "onnxruntime-gpu"),
    "tensorrt": ("TensorrtExecutionProvider", "onnxruntime-gpu with TensorRT"),
    "directml": ("DmlExecutionProvider", "onnxruntime-directml"),
    "coreml": ("CoreMLExecutionProvider", "onnxruntime on macOS"),
    "openvino": ("OpenVINOExecutionProvider", "onnxruntime-openvino"),
    "migraphx": ("MIGraphXExecutionProvider", "onnxruntime-migraphx"),
}
DEVICES = ("auto", *PROVIDERS)
AUTO_ORDER = ("cuda", "directml", "coreml")  # what `auto` tries before the CPU

_CPU = PROVIDERS["cpu"][0]
# cuDNN's exhaustive search times all kernels for each new input size, and strips have many sizes. TF32 rounds to 10
# bits, which moves landmarks.
_OPTIONS: Mapping[str, Mapping[str, str]] = {"cuda": {"cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}}
_N_TIMED = 64  # calls over which `ms_per_call` takes the median


class Tensor(NamedTuple):
    """Element type and shape of a model's input or output; a free dimension is a name or None."""

    type: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Signature:
    """A model's inputs and outputs, by name."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


@dataclass(slots=True)
class ModelSession:
    """An open model on a device that has run it.

    `device` and `provider` name what ran. `note` tells it to the user, with the reason where another device was
    expected. Use it from one thread at a time.
    """

    path: Path
    device: str
    provider: str
    note: str
    signature: Signature
    _run: Callable[[Sequence[str], Mapping[str, Array]], list[Any]] = field(repr=False)
    _times_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_N_TIMED), repr=False)

    @property
    def ms_per_call(self) -> float | None:
        """Median time of the last calls in milliseconds; None before the first."""
        return median(self._times_ms) if self._times_ms else None

    def forget_times(self) -> None:
        """Measure `ms_per_call` from now on."""
        self._times_ms.clear()

    def close(self) -> None:
        """Free the model's memory; its metadata stays."""
        self._run = _refuse_closed

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The named outputs for these inputs (float32). Raises InferenceError, also where a call exceeds `limits`."""
        start = time.perf_counter()
        try:
            results = self.run_once(outputs, inputs)
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise InferenceError(
                f"{self.path.name}: could not run on {self.device} ({call_limits.explain_error(error)})"
            ) from error
        self._times_ms.append((time.perf_counter() - start) * 1000)
        return results

    def run_once(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """As `run`, without conversion of errors and without timing."""
        return [np.asarray(result, dtype=np.float32) for result in self._run(list(outputs), inputs)]


def _refuse_closed(outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Any]:
    raise RuntimeError("it was closed")


def load_signature(path: Path) -> Signature:
    """Names, types and shapes of a model's inputs and outputs. Raises PackError when the file is not a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=[_CPU])
    except Exception as error:
        raise PackError(f"{path}: not an ONNX model that can be loaded ({error}); export or copy it again") from error
    return _signature_of(session)


def open_session(
    path: Path,
    *,
    device: str = "auto",
    threads: int = 0,
    spinning: bool = False,
    example: Mapping[str, Array],
) -> ModelSession:
    """Open a model on a device and run `example` once to prove that it works.

    `device` is one of DEVICES; `auto` takes the first GPU provider that really runs, else the CPU, and `note` tells
    which. `threads` is the number of threads inside one operator (0: all cores). `spinning` makes idle threads wait
    actively: a little faster on an idle machine, much slower on a busy one.

    Raises: DeviceError when a requested device is not available; InferenceError when the model does not run at all.
    """
    if device not in DEVICES:
        raise DeviceError(f"device '{device}': not known; wanted one of {', '.join(DEVICES)}")
    names = [device] if device != "auto" else [*installed_devices(AUTO_ORDER), "cpu"]
    refusals: list[str] = []
    for name in names:
        try:
            return _open_on(path, name, threads, spinning, example, refusals, asked=device)
        except DeviceError as error:
            if device != "auto":
                raise
            refusals.append(str(error))
    raise InferenceError(f"{path}: no device could run it; {refusals[-1]}")  # pragma: no cover - the CPU raises itself


def installed_devices(names: Sequence[str]) -> list[str]:
    """Which of these devices have a provider in the installed onnxruntime."""
    import onnxruntime

    available = onnxruntime.get_available_providers()
    return [name for name in names if PROVIDERS[name][0] in available]


def _open_on(
    path: Path,
    name: str,
    threads: int,
    spinning: bool,
    example: Mapping[str, Array],
    refusals: Sequence[str],
    *,
    asked: str,
) -> ModelSession:
    provider, package = PROVIDERS[name]
    if not installed_devices([name]):
        raise DeviceError(
            f"device {name}: this onnxruntime has only {_available()}; "
            f"install {package} in place of onnxruntime, or use --device cpu"
        )
    session = _create_session(path, name, threads, spinning)
    example = _fit_batch(example, _signature_of(session))
    if session.get_providers()[0] != provider:
        raise DeviceError(
            f"device {name}: {provider} is installed and did not start (driver or CUDA/cuDNN libraries missing?); "
            "check them with nvidia-smi, or use --device cpu"
        )
    share = 1.0 if name == "cpu" else _share_on(path, name, threads, example)
    if share == 0.0:
        raise DeviceError(f"device {name}: {path.name} fell back to the CPU in every node; use --device cpu")
    opened = ModelSession(
        path, name, provider, _device_note(name, share, refusals, asked), _signature_of(session), session.run
    )
    opened.run(list(opened.signature.outputs), example)
    opened.forget_times()  # the first call includes allocation and kernel selection
    return opened


def _create_session(path: Path, name: str, threads: int, spinning: bool, profile: Path | None = None) -> Any:
    import onnxruntime

    if name == "cuda" and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    # it keeps one pattern for each input size, and strips have many sizes: 10 MB in a run
    options.enable_mem_pattern = False
    onnxruntime.set_default_logger_severity(4)
    options.log_severity_level = 4  # errors of a provider are reported by our own messages
    if name == "cpu":
        call_limits.bound_memory()
        options.add_session_config_entry(call_limits.SHARED_ALLOCATOR, "1")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    providers: list[Any] = [(PROVIDERS[name][0], _OPTIONS.get(name, {}))] + ([] if name == "cpu" else [_CPU])
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:
        kind = InferenceError if name == "cpu" else DeviceError
        raise kind(f"{path}: could not be opened on {name} ({error}); use --device cpu or export it again") from error


def _fit_batch(example: Mapping[str, Array], signature: Signature) -> dict[str, Array]:
    """The example, repeated to the batch size where a model was exported for a fixed one."""
    batches = {name: tensor.shape[0] if tensor.shape else None for name, tensor in signature.inputs.items()}
    return {
        name: np.repeat(value, batch, axis=0) if isinstance(batch := batches.get(name), int) else value
        for name, value in example.items()
    }


def _share_on(path: Path, name: str, threads: int, example: Mapping[str, Array]) -> float:
    """Share of executed nodes that ran on a provider, from the profile of one call."""
    with tempfile.TemporaryDirectory() as folder:
        session = _create_session(path, name, threads, spinning=False, profile=Path(folder) / "profile")
        try:
            session.run(None, dict(example))
        except Exception as error:
            raise DeviceError(f"device {name}: {path.name} failed there ({error}); use --device cpu") from error
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return share_of_nodes(events, PROVIDERS[name][0])


def share_of_nodes(events: Sequence[Mapping[str, Any]], provider: str) -> float:
    """Share of the kernel executions in an onnxruntime profile that ran on a provider (0..1; 0 without any)."""
    ran = Counter(event["args"]["provider"] for event in events if event.get("args", {}).get("provider"))
    return ran[provider] / max(1, sum(ran.values()))


def _signature_of(session: Any) -> Signature:
    return Signature(
        {item.name: Tensor(item.type, tuple(item.shape)) for item in session.get_inputs()},
        {item.name: Tensor(item.type, tuple(item.shape)) for item in session.get_outputs()},
    )


def signature_facts(signature: Signature) -> dict[str, Any]:
    """A signature as JSON values."""
    return {"inputs": dict(signature.inputs), "outputs": dict(signature.outputs)}


def signature_from(facts: Mapping[str, Any]) -> Signature:
    """The signature from its `signature_facts`."""
    inputs, outputs = (
        {name: Tensor(kind, tuple(shape)) for name, (kind, shape) in facts[side].items()}
        for side in ("inputs", "outputs")
    )
    return Signature(inputs, outputs)


def _available() -> str:
    import onnxruntime

    names = {provider: name.upper() for name, (provider, _) in PROVIDERS.items()}
    return ", ".join(names.get(item, item) for item in onnxruntime.get_available_providers())


def _device_note(name: str, share: float, refusals: Sequence[str], asked: str) -> str:
    label = "CPU" if name == "cpu" else name.upper() + ("" if share == 1.0 else f" ({share:.0%} of nodes, rest on CPU)")
    if name != "cpu" or asked != "auto":
        return label
    return f"{label} ({refusals[0]})" if refusals else f"{label} (no CUDA provider in this onnxruntime)"
