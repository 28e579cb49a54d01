"""Find the smooth path of a seam through a straightened strip of the plate, from a network's logits at every offset.

Dimensions: S pairs of positions along the curve, D offsets across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

N_OFFSETS = 40
OFFSETS = np.arange(N_OFFSETS) - (N_OFFSETS - 1) / 2  # in steps of 1 / ACROSS of the face
TRUST = 0.6  # exponent on the network's probabilities, because neighbouring positions share pixels
NEAR, BY_SHOT = 12.0, 24.0  # weights of a predicted curve, in samples of the strip, and of one by the whole shot
LEAST_SPREAD = 1.0  # least deviation of a prediction, in steps, whatever its own estimate
BEND = 1.0  # typical change of the offset from one pair to the next, in steps
CORNER = 20.0  # additional change, in steps for each radian by which the predicted curve turns there
SHARPEST = 8.0  # largest typical change
JUMP = 0.002  # weight of any other change
NEAR_PLACE = 0.25  # weight of each position's prediction from a rigid head
ANYWHERE = 1e-3  # probability of any other offset in that case


class StripReading(NamedTuple):
    """A network's logits (S, D + 1) for a strip, and the angle (S,) in radians by which its curve turns at each
    pair."""

    logits: Array
    turn: Array


@dataclass(frozen=True, slots=True, eq=False)
class SeamPath:
    """Offsets (S,) in steps, probability (S,) that the seam is invisible, visible share of the curve itself (without
    its extensions), and its expected mean error in steps."""

    moves: Array
    hidden: Array
    seen: float
    mean_error: float


@dataclass(frozen=True, slots=True, eq=False)
class OffsetEstimate:
    """The likely offset of a seam at each pair: mean and deviation (S,) in steps, and the probability (S,) that the
    seam is visible there."""

    mean: Array
    deviation: Array
    seen: Array


def likely_offsets(strips: Sequence[StripReading], spread: float) -> list[OffsetEstimate]:
    """Likely offsets in each strip, near a prediction with a deviation of `spread` steps.

    Uses the full posterior of `smooth_path`'s chain, so that a position between two creases stays uncertain.
    """
    near = (np.exp(-0.5 * (OFFSETS / max(spread, LEAST_SPREAD)) ** 2) + ANYWHERE) ** NEAR_PLACE
    odds = [_odds(strip.logits) for strip in strips]
    emits = [(seen_at + nothing / N_OFFSETS + 1e-5) ** TRUST * near for seen_at, nothing in odds]
    posteriors = _chain_posteriors(emits, [strip.turn for strip in strips])
    return [_offsets_of(posterior, 1 - each[1][:, 0]) for posterior, each in zip(posteriors, odds)]


def _offsets_of(posterior: Array, seen: Array) -> OffsetEstimate:
    mean = posterior @ OFFSETS
    return OffsetEstimate(mean, np.sqrt((posterior * (OFFSETS - mean[:, None]) ** 2).sum(axis=1)), seen)


def smooth_path(strip: StripReading, expected_error: float, beyond: int = 0, weight: float = NEAR) -> SeamPath:
    """The smooth path through a strip.

    `expected_error` in steps, with the prediction's `weight`. The first and last `beyond` positions extend the curve.

    Posterior means of a hidden Markov chain (forward-backward, Rabiner 1989). Offsets follow the pixels where the seam
    is visible, and lie near the prediction. They change little along the curve, except at its corners: a prediction
    that cuts a corner is off by much on a short way. Where the seam is invisible, the mean of all paths is taken.
    """
    seen_at, nothing = _odds(strip.logits)
    near = np.exp(-0.5 * (OFFSETS / max(1.25 * expected_error, LEAST_SPREAD)) ** 2) + 0.02
    emit = (seen_at + nothing / N_OFFSETS + 1e-5) ** TRUST * near ** (weight / len(seen_at))
    (posterior,) = _chain_posteriors([emit], [strip.turn])
    best = posterior.argmax(axis=1)
    around = np.abs(np.arange(N_OFFSETS) - best[:, None]) <= 2
    local = posterior * around
    moves = (local * OFFSETS).sum(axis=1) / local.sum(axis=1)
    moves += nothing[:, 0] * (posterior @ OFFSETS - moves)
    errors = (posterior * np.abs(OFFSETS - moves[:, None])).sum(axis=1)
    own = slice(beyond, len(seen_at) - beyond)
    return SeamPath(moves, nothing[:, 0], float((nothing[own] < 0.5).mean()), float(errors[own].mean()))


def invisible(strip: StripReading) -> Array:
    """The probability (S,) that the seam is invisible at each pair, each judged alone."""
    return _odds(strip.logits)[1][:, 0]


def _odds(logits: Array) -> tuple[Array, Array]:
    """Probabilities of each offset (S, D), and that the seam is invisible (S, 1)."""
    odds = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return odds[:, :-1], odds[:, -1:]


def _chain_posteriors(emits: Sequence[Array], turns: Sequence[Array]) -> list[Array]:
    """Posterior probabilities of each chain's offsets (S, D) from the likelihoods at its positions, all chains in
    parallel. `turns` (S,): the angle by which each chain's curve turns at each position."""
    emits = [emit / emit.max(axis=1, keepdims=True) for emit in emits]
    # ones after the end of a chain change nothing
    likelihoods = np.ones((max(map(len, emits), default=1), 2 * len(emits), N_OFFSETS))
    kernels = np.zeros(likelihoods.shape[:2], np.intp)
    for k, (emit, turn) in enumerate(zip(emits, turns)):
        n, between = len(emit), _kernel_of(np.maximum(turn[1:], turn[:-1]))
        likelihoods[:n, 2 * k], likelihoods[:n, 2 * k + 1] = emit, emit[::-1]
        kernels[1:n, 2 * k], kernels[1:n, 2 * k + 1] = between, between[::-1]
    sums = _forward_sums(likelihoods, kernels)
    return [_posterior(emit, *sums[: len(emit), 2 * k : 2 * k + 2].swapaxes(0, 1)) for k, emit in enumerate(emits)]


def _posterior(emit: Array, forward: Array, backward: Array) -> Array:
    posterior = forward * backward[::-1] / emit
    return np.asarray(posterior / posterior.sum(axis=1, keepdims=True))


def slide(hidden: Array, beyond: int, spread: float) -> int:
    """By how many pairs the end of a seam lies further out (negative: further in) than predicted.

    `hidden` (S,): probability that the seam is invisible, from its middle outwards; the last `beyond` positions lie
    past the predicted end, whose deviation is `spread` pairs. The end is where visible positions turn into invisible
    ones. Returns 0 where the seam is not visible up to its end.
    """
    window = hidden[-2 * beyond :]
    log_hidden, log_visible = np.log(np.clip(window, 0.02, 0.98)), np.log(np.clip(1 - window, 0.02, 0.98))
    cuts = np.arange(len(window) + 1)
    score = np.concatenate([[0.0], np.cumsum(log_visible)]) + np.concatenate([np.cumsum(log_hidden[::-1])[::-1], [0.0]])
    cut = int((score - 0.5 * ((cuts - beyond) / max(spread, 0.4)) ** 2).argmax())
    is_clear = cut >= 3 and float(window[max(0, cut - 4) : cut].mean()) < 0.35
    return cut - beyond if is_clear else 0


_BENDS = np.linspace(BEND, SHARPEST, 29)


def _transition_kernels() -> Array:
    """Likelihoods (bends, D, D) of an offset beside another one, for each typical change of _BENDS; the same both
    ways."""
    change = (OFFSETS[:, None] - OFFSETS) / _BENDS[:, None, None]
    kernels = np.exp(-0.5 * change**2)
    return np.asarray(kernels / kernels.sum(axis=1).max(axis=1)[:, None, None] + JUMP / N_OFFSETS)


_KERNELS = _transition_kernels()


def _kernel_of(turn: Array) -> NDArray[np.intp]:
    """The row of _KERNELS for each angle in radians."""
    return np.searchsorted(_BENDS, np.minimum(BEND + CORNER * turn, SHARPEST))


def _forward_sums(emit: Array, kernels: NDArray[np.intp]) -> Array:
    """Forward sums of chains (S, chains, D), each position normalised to a sum of one.

    `kernels` (S, chains): rows of _KERNELS for the change to each position from the one before."""
    sums = np.empty_like(emit)
    now = emit[0] / emit[0].sum(axis=1, keepdims=True)
    sums[0] = now
    for row in range(1, len(emit)):
        now = (_KERNELS[kernels[row]] @ now[..., None])[..., 0] * emit[row]
        now /= now.sum(axis=1, keepdims=True)
        sums[row] = now
    return sums
