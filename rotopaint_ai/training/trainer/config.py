"""What every training decides apart from its data. A network's own config adds to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import yaml

from rotopaint_ai.errors import UsageError
from rotopaint_ai.training.trainer.activations import MODES
from rotopaint_ai.training.trainer.optim import OPTIMISERS
from rotopaint_ai.training.trainer.parallel.group import HOOKS

PACK = "pack"  # the task of a recipe that names none: both models of a pack


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """What every network's recipe can say of its training.

    The command takes `minutes` from its start to its end, or its training `steps`, whichever comes first (one of them
    may be null); training also ends when the score has not improved for `patience` evaluations. With `minutes: null` a
    run is repeatable to the last bit on one machine; by the clock it is not.
    """

    task: str = PACK
    name: str = ""
    plugins: tuple[str, ...] = ()  # Python files that register parts of their own, beside the recipe or by path
    minutes: float | None = 11.0
    steps: int | None = None
    batch: int = 16
    optimiser: str = "adamw"
    learning_rate: float = 2e-3
    warmup: float = 0.03  # share of the run
    weight_decay: float = 0.02
    clip: float = 5.0  # of the gradients' norm
    ema: float = 0.997
    bf16: bool = True
    channels_last: bool = True
    threads: int = 1  # 0: every core
    activations: str = "auto"  # what a step keeps: keep, checkpoint, offload; auto keeps less when memory runs out
    compression: str = "none"  # of the gradients that ranks exchange: none, bf16, fp16, powersgd
    equal_ranks: bool = False  # ranks normalise over the whole batch, as one process would; slower
    seed: int = 1
    eval_every: int = 250  # steps
    patience: int | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raises UsageError with the first field that cannot be."""
        _ = OPTIMISERS[self.optimiser], HOOKS[self.compression]
        check_ranges(self, _RANGES)
        check_all(
            (
                (
                    self.minutes is not None or self.steps is not None,
                    "minutes and steps are both null; wanted one of them",
                ),
                (self.minutes is None or self.minutes > 0, f"minutes {self.minutes}: wanted more than 0"),
                (self.steps is None or self.steps > 0, f"steps {self.steps}: wanted more than 0"),
                (self.batch >= 2, f"batch {self.batch}: wanted 2 or more, which batch normalisation needs"),
                (self.activations in MODES, f"activations {self.activations}: wanted one of {', '.join(MODES)}"),
                (0 <= self.ema < 1, f"ema {self.ema}: wanted 0 to below 1"),
                (self.learning_rate > 0, f"learning_rate {self.learning_rate}: wanted more than 0"),
                (self.eval_every >= 1, f"eval_every {self.eval_every}: wanted 1 or more"),
            )
        )

    @property
    def limit_s(self) -> float | None:
        """Seconds of the whole command."""
        return None if self.minutes is None else self.minutes * 60

    def to_yaml(self) -> str:
        """The whole config as YAML text that `recipe.load_config` reads back to an equal one."""
        content = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return cast(str, yaml.safe_dump(content, sort_keys=False, width=120))


_RANGES: Mapping[str, tuple[float, float]] = {
    **{"batch": (2, 65_536), "seed": (0, 2**32 - 1), "threads": (0, 1024), "patience": (1, math.inf)},
    **{"learning_rate": (0, 1), "warmup": (0, 0.9), "weight_decay": (0, 1), "clip": (1e-3, math.inf)},
}


def check_ranges(config: Any, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raises UsageError with the first field outside its range; null passes."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            wanted = f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
            raise UsageError(f"{name} {value}: wanted {wanted}")


def check_all(rules: Iterable[tuple[bool, str]]) -> None:
    """Raises UsageError with the message of the first rule that does not hold."""
    for holds, message in rules:
        if not holds:
            raise UsageError(message)


def check_weights(augment: Mapping[str, float], losses: Mapping[str, float]) -> None:
    """Raises UsageError unless augmentations are given as probabilities and losses as weights."""
    check_all(
        (
            (all(0 <= p <= 1 for p in augment.values()), "augment: wanted probabilities from 0 to 1"),
            (
                all(weight >= 0 for weight in losses.values()) and any(losses.values()),
                "losses: wanted weights of 0 or more, at least one above 0",
            ),
        )
    )
