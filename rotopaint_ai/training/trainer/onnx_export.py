"""Export a network as ONNX, check the file against the network, and load weights from such a file."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnx_ir.passes.common as common
import torch
from onnx import numpy_helper
from onnxscript import opset18
from onnxscript.optimizer import fold_constants
from onnxscript.values import Op, Opset
from torch import nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.inference.onnx_session import open_session

Array = npt.NDArray[Any]
Names = tuple[str, Sequence[str]]  # names of a model's input and outputs
Traces = dict[type[nn.Module], "onnx.ModelProto"]  # exported graphs by model class
FREE_BATCH = {0: torch.export.Dim("N")}


def as_arrays(model: nn.Module) -> Callable[[Array], list[Array]]:
    """A model with one input as a function of arrays, like an inference session."""

    def run(values: Array) -> list[Array]:
        with torch.no_grad():
            output = model(torch.from_numpy(np.ascontiguousarray(values)))
        return [part.numpy() for part in (output if isinstance(output, tuple) else (output,))]

    return run


def export_checked(
    model: nn.Module,
    path: Path,
    names: Names,
    sample: Array,
    *,
    limits: Mapping[str, float],
    unit: str = "",
    example: Array | None = None,
    free: Any = None,
    translations: Mapping[Any, Any] | None = None,
    counts: Callable[[Sequence[Array], Sequence[Array]], Array] | None = None,
    rewrite: bool = False,
    traces: Traces | None = None,
) -> float:
    """Write a model as ONNX, run the file on `sample` and compare. Returns the largest difference of the first limited
    output.

    `limits`: largest allowed difference of each compared output, in `unit`. `example`: input for tracing (None: two
    rows of the sample). `free`: its axes of variable length (None: the first). `counts`: selects the rows to compare
    from expected and actual outputs (None: all). `rewrite`: see `save_onnx`. `traces`: reuses the graph of an earlier
    model of the same class that differs only in tensor values. The file is written whole or not at all. Raises
    TrainingError if a difference exceeds its limit; the file is removed.
    """
    model = model.eval()
    if example is None:
        example = sample[:2] if len(sample) > 1 else np.repeat(sample[:1], 2, 0)
    shown = torch.from_numpy(np.ascontiguousarray(example))
    free = FREE_BATCH if free is None else free
    with replacing(path) as beside:
        save_onnx(model, beside, names, shown, free=free, translations=translations, rewrite=rewrite, traces=traces)
        apart = _output_differences(model, beside, names, sample, counts)
        for name, limit in limits.items():
            if not apart[name] <= limit:
                raise TrainingError(
                    f"{path.name}: {name} of the exported model differs from the trained network's by {apart[name]:.3g}"
                    f"{unit}, wanted at most {limit}{unit}; report this with the recipe"
                )
    return apart[next(iter(limits))]


def _output_differences(
    model: nn.Module,
    path: Path,
    names: Names,
    sample: Array,
    counts: Callable[[Sequence[Array], Sequence[Array]], Array] | None,
) -> dict[str, float]:
    """The largest difference of each output between file and model."""
    wanted = as_arrays(model)(sample)
    session = open_session(path, device="cpu", threads=1, example={names[0]: sample[:1]})
    got = session.run(tuple(names[1]), {names[0]: sample})
    chosen = ... if counts is None else counts(wanted, got)
    differences = [np.abs(a - b)[chosen] for a, b in zip(got, wanted)]
    return {name: float(each.max()) if each.size else 0.0 for name, each in zip(names[1], differences)}


def save_onnx(
    model: nn.Module,
    path: Path,
    names: Names,
    example: torch.Tensor,
    *,
    free: Any,
    translations: Mapping[Any, Any] | None = None,
    rewrite: bool = False,
    traces: Traces | None = None,
) -> None:
    """Write a model with one input as ONNX; `free` maps the input's variable axes to `torch.export.Dim`s.

    `translations`: ONNX script functions for custom operators. `rewrite`: apply the exporter's rewrite rules, which
    fold batch norms into convolutions and double the export time. `names`, `traces`: see `export_checked`.
    """
    traces = {} if traces is None else traces
    known = traces.get(type(model))
    graph = None if known is None or rewrite else _replace_tensors(known, model)
    if graph is None:
        with _silence_exporter(), torch.no_grad():
            program = torch.onnx.export(
                model,
                (example,),
                dynamo=True,
                input_names=[names[0]],
                output_names=list(names[1]),
                dynamic_shapes=(free,),
                custom_translation_table={
                    torch.ops.aten.linalg_inv_ex.default: _inverse_operator,
                    **(translations or {}),
                },
                verbose=False,
                optimize=rewrite,
            )
        assert program is not None
        graph = program.model
        traces[type(model)] = ir.to_proto(graph)
    if not rewrite:
        _simplify(graph)
    onnx.save(_strip_metadata(ir.to_proto(graph)), str(path))


def _inverse_operator(matrix: Any) -> tuple[Any, Any]:
    """A matrix inverse and the status "no error": ONNX has no such operator, onnxruntime has a custom one."""
    value, domain = onnx.defs.OpSchema.FormalParameter, "com.microsoft"
    kinds = [("T", ["tensor(float)", "tensor(double)"], "matrices")]
    schema = onnx.defs.OpSchema(
        "Inverse", domain, 1, inputs=[value("X", "T")], outputs=[value("Y", "T")], type_constraints=kinds
    )
    constant: Any = opset18
    return Op(Opset(domain, 1), "Inverse", schema)(matrix), constant.Constant(value_int=0)


def _replace_tensors(trace: onnx.ModelProto, model: nn.Module) -> Any:
    """An exported graph with the tensors of `model`; None if the shapes differ."""
    graph = ir.from_proto(trace)
    state = model.state_dict()
    for name, value in graph.graph.initializers.items():
        if name not in state:  # a constant from the code
            continue
        if value.shape is None or tuple(value.shape.numpy()) != tuple(state[name].shape):
            return None
        value.const_value = ir.tensor(state[name].detach().cpu().numpy(), name=name)
    return graph


def _simplify(model: Any) -> None:
    """Fold constants, merge duplicates and remove unused nodes.

    The exporter's own optimiser also tries its rewrite rules on every node. That takes half of an export's time without
    effect in onnxruntime: file size, loading and run time of a character's model stay the same.
    """
    common.InlinePass()(model)
    fold_constants(model)
    for each in (
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedFunctionsPass(),  # type: ignore[no-untyped-call]  # onnx_ir has no types here
        common.RemoveUnusedOpsetsPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    ):
        each(model)


def _strip_metadata(proto: Any) -> Any:
    """The graph without the file names and stack traces that the exporter adds."""
    for node in proto.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        del value.metadata_props[:]
    del proto.graph.metadata_props[:]
    del proto.metadata_props[:]
    proto.producer_name = "rotopaint-ai"
    return proto


@contextlib.contextmanager
def _silence_exporter() -> Iterator[None]:
    """Silence the exporter's logs, warnings and prints; a real failure still raises."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def read_graph(path: Path) -> onnx.GraphProto:
    """The graph of an ONNX file. Raises TrainingError for any other file."""
    try:
        return onnx.load(str(path)).graph
    except Exception as error:  # protobuf raises many types
        raise TrainingError(f"{path}: cannot be read ({error}); copy the pack again") from error


def load_weights(net: nn.Module, graph: onnx.GraphProto, path: Path) -> None:
    """Load the weights of an ONNX file into a network of the same layout.

    Batch norms in the file are either nodes in module order, which may share equal tensors, or folded into
    convolutions.
    Folded norms leave only an offset; the network's norms then become the identity plus that offset.
    Raises: TrainingError if a tensor is missing or has another shape.
    """
    stored = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    state = net.state_dict()
    for name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            state[f"{name}.weight"] = torch.full_like(module.weight, (1 + module.eps) ** 0.5)
            state[f"{name}.running_mean"] = torch.zeros_like(module.weight)
            state[f"{name}.running_var"] = torch.ones_like(module.weight)
    for name, place in _tensor_places(net, graph).items():
        if place not in stored or stored[place].shape != tuple(state[name].shape):
            raise TrainingError(
                f"{path}: has no weights '{place}' to initialise from; train without it (seam_minutes=0, or no `start`)"
            )
        state[name] = torch.tensor(stored[place])
    net.load_state_dict(state)


def _tensor_places(net: nn.Module, graph: onnx.GraphProto) -> dict[str, str]:
    """The file's tensor name for each tensor of the network.

    A folded norm's offset (`fine.1.bias`) is named after its convolution (`fine.0.weight_bias`).
    """
    norms = [name for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)]
    nodes = [node for node in graph.node if node.op_type == "BatchNormalization"]
    places = {name: name for name, _ in net.named_parameters() if name.rpartition(".")[0] not in norms}
    if not nodes:
        return places | {f"{norm}.bias": f"{norm.removesuffix('1')}0.weight_bias" for norm in norms}
    pairs = [(norm, node.input[1:5]) for norm, node in zip(norms, nodes)]
    return places | {f"{norm}.{part}": name for norm, names in pairs for part, name in zip(_NORM, names)}


_NORM = ("weight", "bias", "running_mean", "running_var")  # the order of a node's inputs after the first
