"""Where the face is in each frame: the similarity that lays a frame's features on the mean face; and mirror images.

Features are whatever every artist agrees on without agreeing on points: landmarks with names, and each shape's middle
(the mean along its arc). Face space: x to the picture's right on an upright face, y down, the mirror axis at x = 0, the
longest side of the mean face 1. Letters: F frames, K features, L landmarks, C components.

Which names are each other's mirror image is read from their words first, from where they lie on the mean face second. A
head that looks to one side most of the time has a lopsided mean face, and no landmark lies where the mirror image of
another one would: `frontalise` takes the head's relief from the keyed frames and turns it to the front first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.head_structure import fit_structure
from rotopaint_ai.shapes.revectorise.raw_curves import Array
from rotopaint_ai.similarity import fit_similarity

Complex = npt.NDArray[np.complex128]
_ROUNDS = 8
_SIDES = (("left", "right"), ("lft", "rgt"), ("lf", "rt"), ("lt", "rt"), ("l", "r"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z\d]+")
_MIRROR_NEAR = 0.08  # face units: a mirrored point and its partner on the mean face may lie this far apart
_ON_AXIS = 0.04  # face units: what lies closer to the axis is its own mirror image
_FEWEST_PAIRS = 3


@dataclass(frozen=True, slots=True)
class Faces:
    """Similarities of F frames: a plate point z (complex) lies at `turn * (z - centre)` in face space.

    `mean`: the features of the mean face; `misfit`: [F, K] how far each feature lies from the mean, in face units.
    `partner`: for each feature row that has one the row of its mirror image.
    """

    turn: Complex
    centre: Complex
    mean: Complex
    misfit: Array
    features_FKC: Array
    partner: Mapping[int, int]

    @property
    def side_px(self) -> Array:
        """The face's longest side in pixels of its plate, per frame."""
        return np.asarray(1.0 / np.abs(self.turn))

    def to_face(self, points_FNC: Array, rows: npt.NDArray[np.intp]) -> Array:
        """Plate points of some frames in face space."""
        moved = (as_complex(points_FNC) - self.centre[rows, None]) * self.turn[rows, None]
        return as_plain(moved)


def as_complex(points: Array) -> Complex:
    """(..., 2) as complex numbers."""
    return np.asarray(points[..., 0] + 1j * points[..., 1])


def as_plain(values: Complex) -> Array:
    """Complex numbers as (..., 2)."""
    return np.stack((values.real, values.imag), axis=-1)


def place_faces(features_FKC: Array, pairs: Sequence[tuple[int, int]], *, extent: Array) -> Faces:
    """Lay every frame on the mean face; features not known in a frame are NaN.

    `pairs`: rows of features that mirror each other; they say which way the mirror axis runs. Without any the mean
    picture is taken to be upright. `extent`: [F] the face's longest side in each frame in pixels, which sets the unit.
    Source: generalised Procrustes analysis in the plane by complex factors, each feature weighted down where it lies
    far off (Cauchy weights), so that a jumped point or two swapped shapes do not tilt a frame.
    """
    z = as_complex(features_FKC)
    known = np.isfinite(z)
    weights = known.astype(np.float64)
    z = np.where(known, z, 0)
    mean = _first_mean(z, known)
    for _ in range(_ROUNDS):
        turn, centre = _similarities(z, weights, mean)
        laid = (z - centre[:, None]) * turn[:, None]
        total = np.maximum(weights.sum(axis=0), 1e-9)
        mean = _unit_mean((weights * laid).sum(axis=0) / total, np.asarray(known.any(axis=0)))
        turn, centre = _similarities(z, weights, mean)
        off = np.abs((z - centre[:, None]) * turn[:, None] - mean)
        spread = max(float(np.median(off[known])), 1e-6) * 3
        weights = known / (1.0 + (off / spread) ** 2)
    turn, centre, mean = _upright(turn, centre, mean, pairs)
    unit = float(np.median(np.abs(turn) * extent))
    turn, mean = turn / unit, mean / unit
    misfit = np.where(known, np.abs((z - centre[:, None]) * turn[:, None] - mean), np.nan)
    partner = {one: two for pair in pairs for one, two in (pair, pair[::-1])}
    return Faces(turn, centre, mean, misfit, features_FKC, partner)


def mirrored_misfit(faces: Faces) -> Array:
    """[F] how far frames lie from the mean face when left and right change names: the mean over their features."""
    order = np.array([faces.partner.get(row, row) for row in range(faces.features_FKC.shape[1])])
    z = as_complex(faces.features_FKC)[:, order]
    known = np.isfinite(z)
    z = np.where(known, z, 0)
    turn, centre = _similarities(z, known.astype(np.float64), faces.mean)
    off = np.abs((z - centre[:, None]) * turn[:, None] - faces.mean)
    return np.asarray((off * known).sum(axis=1) / np.maximum(known.sum(axis=1), 1))


def _first_mean(z: Complex, known: npt.NDArray[np.bool_]) -> Complex:
    """The most complete frame; features it lacks start at the mean of the others, and find their place in time."""
    row = int(np.argmax(known.sum(axis=1)))
    mean = np.where(known[row], z[row], z[row][known[row]].mean())
    return _unit_mean(mean, np.asarray(known.any(axis=0)))


def _unit_mean(mean: Complex, known: npt.NDArray[np.bool_]) -> Complex:
    mean = np.where(known, mean, mean[known].mean())
    mean = mean - mean[known].mean()
    return np.asarray(mean / max(float(np.sqrt((np.abs(mean[known]) ** 2).mean())), 1e-9))


def _similarities(z: Complex, weights: Array, mean: Complex) -> tuple[Complex, Complex]:
    """Factors and centres that lay each frame on the mean; one feature alone says nothing of size: the caller's extent
    has to."""
    turn, shift = fit_similarity(z, np.broadcast_to(mean, z.shape), weights)
    return turn, -shift / turn


def _upright(
    turn: Complex, centre: Complex, mean: Complex, pairs: Sequence[tuple[int, int]]
) -> tuple[Complex, Complex, Complex]:
    """Turn the mean face so that pairs mirror at x = 0, the picture's up staying up."""
    upright = np.conj(np.median((turn / np.abs(turn)).real) + 1j * np.median((turn / np.abs(turn)).imag))
    spin = upright / max(abs(upright), 1e-9)
    if pairs:
        across = np.array([mean[b] - mean[a] for a, b in pairs]) * spin
        across = across * np.where(across.real < 0, -1, 1)
        across = across.sum() / max(abs(across.sum()), 1e-9)
        spin = spin * np.conj(across)
    mean, turn = mean * spin, turn * spin
    middle = np.mean([(mean[a] + mean[b]).real / 2 for a, b in pairs]) if pairs else mean.real.mean()
    return turn, centre + middle / turn, mean - middle


def other_side(name: str, names: Collection[str]) -> str | None:
    """The name with left and right exchanged, where that is another of `names`: `brow_left_2`, `L_eye`, `eyeRight`."""
    words = _WORD.findall(name)
    for one, two in _SIDES:
        swap = {one: two, two: one}
        turned = "".join(_like(swap[word.lower()], word) if word.lower() in swap else word for word in words)
        if turned != name and turned in names:
            return turned
    return None


def _like(word: str, model: str) -> str:
    if model.isupper():
        return word.upper()
    return word.capitalize() if model[:1].isupper() else word


def name_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs by the words of their names alone, each once."""
    pairs = []
    for name in names:
        other = other_side(name, names)
        if other is not None and name < other and other_side(other, names) == name:
            pairs.append((name, other))
    return pairs


def partners(names: Sequence[str], places: Array, *, fixed: Mapping[str, str] | None = None) -> dict[str, str]:
    """For each name the one it becomes in a mirrored picture; its own where nothing else fits.

    `places`: (N, 2) on the mean face, axis at x = 0, NaN where unknown. Words decide; what they leave open is matched
    to the nearest mirrored place, names of one series (`jaw_0`, `jaw_8`) first. `fixed` overrules both.
    """
    found: dict[str, str] = dict(fixed or {})
    for one, two in name_pairs(names):
        if one not in found and two not in found:
            found[one], found[two] = two, one
    open_rows = [row for row, name in enumerate(names) if name not in found and np.isfinite(places[row]).all()]
    for same_series in (True, False):
        _match_points(names, places, [row for row in open_rows if names[row] not in found], same_series, found)
    return {name: found.get(name, name) for name in names}


def _match_points(
    names: Sequence[str], places: Array, rows: Sequence[int], same_series: bool, found: dict[str, str]
) -> None:
    mirrored = places * np.array([-1.0, 1.0])
    options = []
    for one in rows:
        for two in rows:
            if two < one or (same_series and _series(names[one]) != _series(names[two])):
                continue
            away = float(np.linalg.norm(places[one] - mirrored[two]))
            if one == two and abs(places[one, 0]) > _ON_AXIS:
                continue
            if away <= (_MIRROR_NEAR if one != two else 2 * _ON_AXIS):
                options.append((away, one, two))
    for _, one, two in sorted(options):
        if names[one] not in found and names[two] not in found:
            found[names[one]], found[names[two]] = names[two], names[one]


def _series(name: str) -> str:
    return re.sub(r"\d+$", "", name)


def typical_curve(face_FMC: Array, n_samples: int) -> Array:
    """Of a shape's curves the one whose extent is the most usual, thinned out to about so many samples [M, 2]."""
    extent = np.concatenate((face_FMC.min(axis=1), face_FMC.max(axis=1)), axis=1)
    row = int(np.abs(extent - np.median(extent, axis=0)).sum(axis=1).argmin())
    return np.asarray(face_FMC[row, :: max(1, face_FMC.shape[1] // n_samples)])


def is_own_mirror(face_FMC: Array, closed: bool) -> bool:
    """Whether a shape's mean place is its own mirror image: its middle on the axis and as wide to either side."""
    low, high = face_FMC[..., 0].min(axis=1), face_FMC[..., 0].max(axis=1)
    middle, width = np.median(low + high) / 2, np.median(high - low)
    if abs(middle) > _MIRROR_NEAR or (not closed and width < 2 * _ON_AXIS):
        return False
    points = typical_curve(face_FMC, 128)
    mirrored = points * np.array([-1.0, 1.0])
    away = np.linalg.norm(points[:, None] - mirrored[None], axis=2).min(axis=1)
    return bool(np.mean(away) < 0.6 * _MIRROR_NEAR)


def mean_places(places_FLC: Array) -> Array:
    """Usual places [L, 2] of landmarks [F, L, 2] in face space; NaN where no frame knows one."""
    known = np.isfinite(places_FLC[..., 0]).any(axis=0)
    mean = np.full(places_FLC.shape[1:], np.nan)
    mean[known] = np.nanmedian(places_FLC[:, known], axis=0)
    return mean


def frontalise(places_FLC: Array, mean_LC: Array, names: Sequence[str]) -> Array:
    """Places [L, 2] of landmarks seen from the front, the axis at x = 0; NaN where `mean_LC` is.

    `places_FLC`: [F, L, 2] the landmarks of every frame in face space; `mean_LC`: [L, 2] their usual places, which are
    the answer where too few names are a pair or too few frames are keyed.
    """
    known = np.flatnonzero(np.isfinite(mean_LC).all(axis=1))
    rows = [names[int(column)] for column in known]
    pairs = [(rows.index(one), rows.index(two)) for one, two in name_pairs(rows)]
    structure = fit_structure(places_FLC[:, known], None) if len(pairs) >= _FEWEST_PAIRS else None
    if structure is None:
        return mean_LC
    left, right = (structure.places[[pair[side] for pair in pairs]] for side in (0, 1))
    turned = _facing(structure.places, left, right)
    over = mean_LC[known]
    out = mean_LC.copy()
    out[known] = turned * (float(over.std()) / max(float(turned.std()), 1e-9)) + (0.0, float(over[:, 1].mean()))
    return out


def _facing(places: Array, left: Array, right: Array) -> Array:
    """Places [L, 2] of a head [L, 3] turned so that pairs mirror each other at x = 0; its up stays where it is.

    The axis from one side to the other is the main direction of the pairs' differences.
    """
    apart = right - left
    across = np.linalg.svd(apart)[2][0]
    across = across * (1.0 if across[0] >= 0 else -1.0)
    up = np.array([0.0, 1.0, 0.0]) - across[1] * across
    up = up / max(float(np.linalg.norm(up)), 1e-9)
    middle = ((left + right) / 2 @ across).mean()
    height = places @ up
    return np.stack([places @ across - middle, height - height.mean()], axis=1)
