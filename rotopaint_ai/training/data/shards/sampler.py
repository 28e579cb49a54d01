"""In which order samples are looked at: exact for a seed, the same for any number of ranks, and resumable at any step.

Pictures that lie in shards are shuffled in windows of a few shards, so that a stream from a server needs no more than
those at a time; without shards the whole set is one window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

WINDOW = 8  # shards whose pictures are mixed
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sampler:
    """The order of n samples under a seed. `groups` says which shard each lies in; None: anywhere at hand."""

    n: int
    seed: int
    groups: tuple[int, ...] | None = None
    window: int = WINDOW

    def batch(self, step: int, count: int) -> list[int]:
        """The rows of a step's whole batch: all samples once, in an order of their own, before any comes again."""
        rows: list[int] = []
        at, end = step * count, (step + 1) * count
        while at < end:
            rest = self.epoch(at // self.n)[at % self.n :][: end - at]
            rows += [int(row) for row in rest]
            at += len(rest)
        return rows

    def share(self, step: int, count: int, *, rank: int, ranks: int) -> list[int]:
        """The part of a step's batch that a rank computes; the parts of all ranks are the whole batch."""
        return self.batch(step, count)[rank::ranks]

    def epoch(self, number: int) -> Rows:
        """The order of an epoch."""
        return _epoch(self, number)

    def ahead(self, step: int, count: int) -> list[int]:
        """A row of each shard in the order in which they are wanted from a step on, into the next epoch.

        Empty without shards.
        """
        if self.groups is None:
            return []
        number, at = divmod(step * count, self.n)
        rows = np.concatenate([self.epoch(number)[at:], self.epoch(number + 1)])
        _, first = np.unique(np.asarray(self.groups)[rows], return_index=True)
        return [int(rows[place]) for place in np.sort(first)]


@lru_cache(maxsize=4)
def _epoch(order: Sampler, number: int) -> Rows:
    rng = np.random.default_rng((order.seed, number, 99))
    if order.groups is None:
        return rng.permutation(order.n)
    groups = np.asarray(order.groups)
    shards = rng.permutation(np.unique(groups))
    windows = [shards[i : i + order.window] for i in range(0, len(shards), order.window)]
    return np.concatenate([rng.permutation(_members(groups, window)) for window in windows])


def _members(groups: npt.NDArray[np.intp], window: Sequence[int] | Rows) -> Rows:
    return np.flatnonzero(np.isin(groups, window))
