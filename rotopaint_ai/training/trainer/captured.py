"""Gradients on a GPU by CUDA graphs: the kernels of a step are recorded once, and then launched together.

The networks are small for a GPU, so launching some thousand kernels one by one takes several times as long as running
them. Source: "CUDA Graphs", section "Whole-network capture", in PyTorch's documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from rotopaint_ai.training.trainer.activations import is_out_of_memory
from rotopaint_ai.training.trainer.task import Losses

WARM_UP = 3  # steps of an input shape before it is recorded, in which libraries choose their kernels
MOST_GRAPHS = 8  # each keeps the memory of its step


class _Recording(NamedTuple):
    """A CUDA graph, and the memory that it reads and writes."""

    graph: Any
    inputs: list[Tensor]
    losses: Losses
    gradients: list[Tensor | None]


@dataclass(slots=True)
class CapturedGradients:
    """Computes a loss and its gradients, by a CUDA graph for each frequent shape of inputs.

    `compute` works on the current stream; it must run the same operations for all inputs of one shape, and read no
    values. If a recording fails, all steps are computed without graphs.
    """

    compute: Callable[[Any], Losses]
    parameters: Sequence[nn.Parameter]
    stream: Any
    failure: str = ""
    _seen: Counter[Hashable] = field(default_factory=Counter)
    _recorded: dict[Hashable, _Recording] = field(default_factory=dict)

    def __call__(self, inputs: Any) -> Losses:
        """The loss and its parts; the parameters get the gradients. The next call overwrites the memory of both."""
        leaves, spec = tree_flatten(inputs)
        shape = tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves)
        self._seen[shape] += 1
        if shape not in self._recorded and self._should_record(shape):
            self._record(shape, leaves, spec)
        if shape in self._recorded:
            return self._replay(self._recorded[shape], leaves)
        return self._on_own_stream(lambda: self.compute(inputs))

    def _should_record(self, shape: Hashable) -> bool:
        return not self.failure and self._seen[shape] > WARM_UP and len(self._recorded) < MOST_GRAPHS

    def _record(self, shape: Hashable, leaves: Sequence[Tensor], spec: Any) -> None:
        inputs, graph = [leaf.clone() for leaf in leaves], torch.cuda.CUDAGraph()
        self._forget_gradients()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                losses = self.compute(tree_unflatten(inputs, spec))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.failure = " ".join(str(error).split())[:200]
            self._forget_gradients()
            return
        gradients = [parameter.grad for parameter in self.parameters]
        self._recorded[shape] = _Recording(graph, inputs, losses, gradients)

    def _replay(self, recorded: _Recording, leaves: Sequence[Tensor]) -> Losses:
        torch._foreach_copy_(recorded.inputs, list(leaves))
        for parameter, gradient in zip(self.parameters, recorded.gradients):
            parameter.grad = gradient
        recorded.graph.replay()
        return recorded.losses

    def _on_own_stream(self, compute: Callable[[], Losses]) -> Losses:
        """Compute on the recordings' stream, because libraries initialise each stream separately."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            losses = compute()
        torch.cuda.current_stream().wait_stream(self.stream)
        return losses

    def _forget_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
