"""Mirror partners of names, and a character's landmarks seen from the front.

Partners come from the words of names first, from positions on the mean face second. If a head mostly looks to one side,
its mean face is lopsided and mirrored positions do not match; `frontalise` then estimates the head's rigid structure
from the keyed frames and turns it to the front.
Face space as in `mean_face.py`. Letters: F frames, L landmarks, C components.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from rotopaint_ai.shapes.head_structure import fit_structure
from rotopaint_ai.shapes.revectorise.mean_face import turn_to_front, typical_curve
from rotopaint_ai.shapes.revectorise.raw_curves import Array

_SIDES = (("left", "right"), ("lft", "rgt"), ("lf", "rt"), ("lt", "rt"), ("l", "r"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z\d]+")
_MIRROR_NEAR = 0.08  # face units: largest distance between a mirrored point and its partner on the mean face
_ON_AXIS = 0.04  # face units: a point closer to the axis is its own mirror image
_FEWEST_PAIRS = 3


def other_side(name: str, names: Collection[str]) -> str | None:
    """The name with left and right exchanged, if it is another one of `names`: `brow_left_2`, `L_eye`, `eyeRight`."""
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
    """Mirror pairs found by words alone, each once."""
    pairs = []
    for name in names:
        other = other_side(name, names)
        if other is not None and name < other and other_side(other, names) == name:
            pairs.append((name, other))
    return pairs


def partners(names: Sequence[str], places: Array, *, fixed: Mapping[str, str] | None = None) -> dict[str, str]:
    """The mirror partner of each name; the name itself if it has none.

    `places`: (N, 2) on the mean face, axis at x = 0, NaN where unknown. Words decide first. Remaining names are matched
    to the nearest mirrored position, names of one series (`jaw_0`, `jaw_8`) first. `fixed` overrides both.
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


def is_own_mirror(face_FMC: Array, closed: bool) -> bool:
    """Whether a shape's mean position is symmetric: its middle lies on the axis and both sides are equally wide."""
    low, high = face_FMC[..., 0].min(axis=1), face_FMC[..., 0].max(axis=1)
    middle, width = np.median(low + high) / 2, np.median(high - low)
    if abs(middle) > _MIRROR_NEAR or (not closed and width < 2 * _ON_AXIS):
        return False
    points = typical_curve(face_FMC, 128)
    mirrored = points * np.array([-1.0, 1.0])
    away = np.linalg.norm(points[:, None] - mirrored[None], axis=2).min(axis=1)
    return bool(np.mean(away) < 0.6 * _MIRROR_NEAR)


def frontalise(places_FLC: Array, mean_LC: Array, names: Sequence[str]) -> Array:
    """Positions [L, 2] of landmarks seen from the front, axis at x = 0; NaN where `mean_LC` is NaN.

    `places_FLC`: [F, L, 2] landmarks of every frame in face space. `mean_LC`: [L, 2] their mean positions, which are
    returned if too few names form pairs or too few frames are keyed.
    """
    known = np.flatnonzero(np.isfinite(mean_LC).all(axis=1))
    rows = [names[int(column)] for column in known]
    pairs = [(rows.index(one), rows.index(two)) for one, two in name_pairs(rows)]
    structure = fit_structure(places_FLC[:, known], None) if len(pairs) >= _FEWEST_PAIRS else None
    if structure is None:
        return mean_LC
    left, right = (structure.places[[pair[side] for pair in pairs]] for side in (0, 1))
    turned = turn_to_front(structure.places, left, right)
    over = mean_LC[known]
    out = mean_LC.copy()
    out[known] = turned * (float(over.std()) / max(float(turned.std()), 1e-9)) + (0.0, float(over[:, 1].mean()))
    return out
