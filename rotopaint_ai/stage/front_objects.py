"""Objects in front of a face, to learn from: hands, mugs, branches, rods, cards, locks of hair.

Meshes are in head space, with their colours at the vertices. Sizes are in head units (a head is about two units high).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.face_paint import noise
from rotopaint_ai.stage.mesh import Mesh, ball, from_grid, lathe, tubes
from rotopaint_ai.stage.puppet import Pose, head_rotation

Array = npt.NDArray[Any]
Rng = np.random.Generator
MATERIAL = "object"
IN_FRONT = frozenset({MATERIAL, "hand", "prop", "hair", "hat", "band"})  # materials of what may stand before a face

_NONE = 0.12  # share of pictures without an object
_TWO = 0.15  # share of the others with a second one


def draw_objects(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """None, one or two objects in front of a face."""
    if rng.random() < _NONE:
        return []
    kinds, shares = list(_SHARES), np.array(list(_SHARES.values()))
    drawn = rng.choice(len(kinds), 1 + (rng.random() < _TWO), p=shares / shares.sum())
    return [mesh for kind in drawn for mesh in kinds[kind](face, rng)]


def _before(face: FaceSurface, rng: Rng, *, least: float = 0.1, most: float = 0.7) -> Array:
    """A place in front of the face (3,)."""
    at = face.surface(np.array(rng.uniform(-1.1, 1.1)), np.array(rng.uniform(-1.0, 0.6)))
    return np.asarray(at + np.array([0, 0, rng.uniform(least, most)]))


def _turn(rng: Rng, tilt: float) -> Array:
    """A rotation (3, 3): any angle in the picture, then tilted by angles of standard deviation `tilt`."""
    angle = rng.uniform(0, 2 * np.pi)
    return _tilt(rng, tilt) @ head_rotation(Pose(roll=angle))


def _tilt(rng: Rng, tilt: float) -> Array:
    pitch, yaw = rng.normal(0, tilt, 2)
    return head_rotation(Pose(yaw, pitch))


def _any_colour(rng: Rng) -> Array:
    return np.asarray(rng.uniform(0.02, 0.85, 3) ** rng.uniform(0.8, 2.0))


def _painted(mesh: Mesh, colour: Array, rng: Rng, *, uneven: float) -> Mesh:
    """The mesh in one colour, uneven by a share."""
    sheet = noise(rng, 64, 64, coarse=int(rng.integers(3, 6)))
    rows, columns = (np.clip(mesh.uv[:, ::-1] * 63, 0, 63).astype(int)).T
    return _with_colours(mesh, colour * np.exp(uneven * sheet[rows, columns])[:, None])


def _with_colours(mesh: Mesh, colours: Array) -> Mesh:
    return replace(mesh, colour=np.clip(colours, 0, 1))


def _placed(meshes: Sequence[Mesh], turn: Array, at: Array) -> list[Mesh]:
    return [mesh.moved(turn, at) for mesh in meshes]


def _hand(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """A hand with three or four fingers, a thumb and an arm, often in the colour of the face."""
    size = rng.uniform(0.7, 1.5)
    fingers, thick = _fingers(rng)
    bare = [
        fingers,
        _thumb(rng, thick * 1.15),
        ball(np.zeros(3), np.array([0.23, 0.26, rng.uniform(0.07, 0.12)]), MATERIAL),
    ]
    wrist, sleeve = _arm(rng)
    alike = rng.random() < 0.65
    skin = np.array(face.build.skin) * np.exp(rng.normal(0, 0.12, 3)) if alike else _any_colour(rng)
    made = [_painted(mesh, skin, rng, uneven=0.06) for mesh in (*bare, wrist)]
    made.append(_painted(sleeve, _any_colour(rng), rng, uneven=0.1))
    turn = _turn(rng, 0.35) * size
    flip = np.diag([1.0, 1.0, rng.choice([-1.0, 1.0])])
    return [_with_unit_normals(mesh) for mesh in _placed(made, turn @ flip, _before(face, rng))]


_ALONG = np.linspace(0, 1, 14)  # places along a finger, a thumb, an arm


def _fingers(rng: Rng) -> tuple[Mesh, float]:
    """Fanned and bent fingers from the palm upwards, and their radius."""
    n = int(rng.integers(3, 5))
    fan, curl = rng.uniform(0.1, 0.6), rng.uniform(-0.25, 0.9)
    lean = np.linspace(-fan, fan, n) + rng.normal(0, 0.06, n)
    length = rng.uniform(0.34, 0.5) * (1 - 0.25 * np.abs(np.linspace(-1, 1, n)) ** 2) * rng.uniform(0.9, 1.1, n)
    roots = np.stack([np.linspace(-0.17, 0.17, n), np.full(n, 0.12), np.zeros(n)], -1)
    ways = np.stack([np.sin(lean), np.cos(lean), np.zeros(n)], -1)
    spines = roots[:, None] + ways[:, None] * (length[:, None] * _ALONG)[..., None]
    spines[..., 2] += curl * length[:, None] * _ALONG[None] ** 2
    thick = rng.uniform(0.05, 0.085)
    return tubes(spines, _rounded(np.full(n, thick)), MATERIAL, sides=14), thick


def _thumb(rng: Rng, radius: float) -> Mesh:
    side = rng.choice([-1.0, 1.0])
    way = np.array([side * rng.uniform(0.5, 1.0), rng.uniform(0.2, 0.9), rng.uniform(-0.1, 0.5)])
    spine = np.array([side * 0.12, -0.1, 0.0]) + way * (0.36 * _ALONG)[:, None]
    return tubes(spine[None], _rounded(np.array([radius])), MATERIAL, sides=14)


def _arm(rng: Rng) -> tuple[Mesh, Mesh]:
    """A wrist, and the sleeve over it, from the palm downwards."""
    bent = rng.normal(0, 0.3)
    spine = np.stack([bent * _ALONG**2, -0.1 - 3.0 * _ALONG, rng.uniform(-0.2, 0.4) * _ALONG], -1)
    wrist = tubes(spine[None], np.full((1, len(spine)), rng.uniform(0.09, 0.15)), MATERIAL, sides=16)
    under = spine[rng.uniform(0.08, 0.5) < _ALONG]
    return wrist, tubes(under[None], np.full((1, len(under)), rng.uniform(0.17, 0.26)), MATERIAL, sides=16)


def _rounded(radius: Array) -> Array:
    """Radii (N, K) of fingers with one round end."""
    return np.asarray(radius[:, None] * np.sqrt(np.clip(1 - _ALONG**6, 0.004, 1))[None])


def _with_unit_normals(mesh: Mesh) -> Mesh:
    return replace(mesh, normals=mesh.normals / np.maximum(np.linalg.norm(mesh.normals, axis=1, keepdims=True), 1e-9))


def _mug(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """A mug with a handle, or a bottle or ball without one."""
    r, h = rng.uniform(0.15, 0.45), rng.uniform(0.3, 0.9)
    neck = rng.uniform(0.5, 1.05)
    outside = [[r * neck, h / 2], [r * (0.5 + neck / 2), h * 0.2], [r, -h * 0.1], [r * 0.97, -h / 2], [0.01, -h / 2]]
    inside = [[0.01, -h * 0.3], [r * 0.8, -h * 0.3], [r * neck * 0.9, h / 2]]
    body = lathe(np.array(inside + outside), MATERIAL)
    t = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 16)
    grip = np.stack([r * 0.9 + 0.35 * h * np.cos(t), 0.3 * h * np.sin(t), np.zeros(16)], -1)
    parts = (
        [body]
        if rng.random() < 0.3
        else [body, tubes(grip[None], np.full((1, 16), 0.06 * h + 0.02), MATERIAL, sides=10)]
    )
    colour = _any_colour(rng)
    made = [_painted(mesh, colour, rng, uneven=rng.uniform(0, 0.2)) for mesh in parts]
    return _placed(made, _tilt(rng, 0.5) @ _turn(rng, 0.2), _before(face, rng, least=0.4, most=1.0))


def _walk(rng: Rng, start: Array, way: Array, k: int, *, crooked: float) -> Array:
    """A crooked line (k, 3) from `start` along `way`."""
    off = np.cumsum(rng.normal(0, crooked / np.sqrt(k), (k, 3)) * np.array([1, 1, 0.3]), axis=0)
    return np.asarray(start + np.linspace(0, 1, k)[:, None] * way + off)


def _branch(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """A branch with twigs across the picture."""
    way = _turn(rng, 0.1) @ np.array([rng.uniform(2.5, 5.0), 0, 0])
    middle = _before(face, rng, least=0.3, most=1.0)
    k, thick = 24, rng.uniform(0.015, 0.08)
    stem = _walk(rng, middle - way / 2, way, k, crooked=rng.uniform(0.05, 0.35))
    lines, radii = [stem], [thick * np.linspace(1.2, 0.5, k)]
    for _ in range(int(rng.integers(0, 8))):
        at = int(rng.integers(2, k - 2))
        lines.append(_walk(rng, stem[at], _turn(rng, 0.3) @ np.array([rng.uniform(0.2, 1.0), 0, 0]), k, crooked=0.1))
        radii.append(radii[0][at] * np.linspace(0.8, 0.2, k))
    mesh = tubes(np.stack(lines), np.stack(radii), MATERIAL, sides=8)
    return [_painted(mesh, _any_colour(rng) * np.array([1, 0.8, 0.6]), rng, uneven=0.3)]


def _rod(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """A straight rod or wire, at times with a ball at its end."""
    way = _turn(rng, 0.1) @ np.array([4.0, 0, 0])
    at = _before(face, rng)
    end = rng.random() < 0.5
    line = at + np.linspace(0.0 if end else -0.5, 1.0, 8)[:, None] * way
    parts = [tubes(line[None], np.full((1, 8), np.exp(rng.uniform(np.log(0.008), np.log(0.12)))), MATERIAL, sides=12)]
    if end and rng.random() < 0.6:
        parts.append(ball(at, rng.uniform(0.06, 0.3) * rng.uniform(0.6, 1.4, 3), MATERIAL))
    colour = _any_colour(rng)
    return [_painted(mesh, colour, rng, uneven=rng.uniform(0, 0.2)) for mesh in parts]


def _card(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """A bent sheet: a card, a leaf, a piece of cloth."""
    w, h = rng.uniform(0.15, 0.8, 2)
    y, x = np.meshgrid(np.linspace(1, -1, 24), np.linspace(-1, 1, 24), indexing="ij")
    leaf = rng.random() < 0.5
    across = x * np.sqrt(np.clip(1 - y**2, 0, 1)) if leaf else x
    bend = rng.normal(0, 0.3, 3)
    points = np.stack([across * w, y * h, bend[0] * x**2 + bend[1] * x * y + bend[2] * y**2], -1)
    mesh = _painted(from_grid(points, MATERIAL), _any_colour(rng), rng, uneven=rng.uniform(0, 0.5))
    return _placed([mesh], _turn(rng, 0.4), _before(face, rng, least=0.4, most=1.0))


def _locks(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """Locks of the puppet's hair that fall over the face."""
    b = face.build
    n, k = int(rng.integers(2, 30)), 12
    root = face.surface(rng.uniform(-1.2, 1.2) + rng.normal(0, 0.25, n), rng.uniform(0.4, 1.1) + rng.normal(0, 0.1, n))
    s = np.linspace(0, 1, k)[None, :, None]
    fall = np.array([rng.normal(0, 0.4), -rng.uniform(0.4, 1.8), 0.0]) + rng.normal(0, 0.12, (n, 1, 3))
    spine = root[:, None] + np.array([0, 0, rng.uniform(0.12, 0.4)]) * np.sqrt(s) + fall * s
    spine = spine + rng.normal(0, 0.08, (n, 1, 3)) * np.sin(rng.uniform(2, 9) * s)
    thick = np.exp(rng.uniform(np.log(0.006), np.log(0.06)))
    radii = thick * (1 - 0.9 * np.linspace(0, 1, k)[None] ** 2) * rng.uniform(0.6, 1.3, (n, 1))
    mesh = tubes(spine, radii, MATERIAL, sides=6)
    tints = np.array(b.hair_colour)[None] * np.exp(rng.normal(0, 0.2, (n, 1)))
    return [_with_colours(mesh, np.repeat(tints, k * 6, axis=0))]


Draw = Callable[[FaceSurface, Rng], list[Mesh]]
_SHARES: dict[Draw, float] = {_hand: 0.42, _mug: 0.1, _branch: 0.15, _rod: 0.1, _card: 0.08, _locks: 0.15}
