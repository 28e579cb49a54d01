"""The cost model of a step on several ranks: arithmetic, and gradients in a ring all-reduce.

A ring all-reduce of n ranks passes each of n parts 2 (n - 1) times from neighbour to neighbour, so that it takes
2 (n - 1) (latency + bytes / n / bandwidth). Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations" (2009), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SMALL_BYTES = 8  # bytes of a number that all ranks sum
N_SMALL = 3  # such numbers per step: whether to stop, the amount of ground truth, the time taken


@dataclass(frozen=True, slots=True)
class Link:
    """The link between two ranks: seconds per message, and bytes per second."""

    latency_s: float
    bytes_per_s: float

    def all_reduce_s(self, n_bytes: float, ranks: int) -> float:
        """Seconds for the sum of `n_bytes` over all ranks."""
        return 2 * (ranks - 1) * (self.latency_s + n_bytes / ranks / self.bytes_per_s)


def fit_link(rows: Sequence[tuple[int, float, float]]) -> Link:
    """The link that fits measured all-reduces (ranks, bytes, seconds) with the smallest relative errors."""
    hops = np.array([2.0 * (ranks - 1) for ranks, _, _ in rows])
    passed = np.array([2.0 * (ranks - 1) * n_bytes / ranks for ranks, n_bytes, _ in rows])
    seconds = np.array([taken for _, _, taken in rows])
    design = np.stack([hops, passed], axis=1) / seconds[:, None]
    latency, per_byte = np.linalg.lstsq(design, np.ones(len(rows)), rcond=None)[0]
    return Link(max(float(latency), 0.0), 1 / max(float(per_byte), 1e-15))


@dataclass(frozen=True, slots=True)
class Step:
    """A training step of one rank: seconds without other ranks, and bytes of the gradients."""

    alone_s: float
    gradient_bytes: float

    def talking_s(self, link: Link, ranks: int) -> float:
        """Seconds of communication in a step, if none of it overlapped with arithmetic."""
        if ranks == 1:
            return 0.0
        return link.all_reduce_s(self.gradient_bytes, ranks) + N_SMALL * link.all_reduce_s(SMALL_BYTES, ranks)

    def efficiency(self, link: Link, ranks: int) -> float:
        """Images per second and rank, divided by those of one rank; every rank has its own batch and host."""
        return self.alone_s / (self.alone_s + self.talking_s(link, ranks))

    def strong_efficiency(self, link: Link, ranks: int) -> float:
        """The efficiency where ranks share one batch: each computes a part, but sends equally many bytes."""
        return self.alone_s / (self.alone_s + ranks * self.talking_s(link, ranks))
