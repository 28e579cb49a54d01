"""Rigs, which hold a puppet and are painted out later: a jointed arm, wires, a post on a magnet foot."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.mesh import Mesh, ball, lathe, tubes
from rotopaint_ai.stage.puppet import Pose, PuppetBuild, place

Array = npt.NDArray[Any]

MATERIAL = "rig"
KINDS = ("arm", "wire", "magnet")
_FAR = 6.0  # head units; outside the picture


def rig_meshes(kind: str, build: PuppetBuild, pose: Pose) -> list[Mesh]:
    """A rig of one of KINDS, in stage space. Arm and wires hold the head and follow it; the foot does not move."""
    rng = np.random.default_rng([build.seed, 0x416])
    if kind == "magnet":
        return _magnet(build, rng)
    rotation, shift = place(pose)
    return (_arm if kind == "arm" else _wires)(build, rng, rotation, shift)


def _arm(build: PuppetBuild, rng: np.random.Generator, rotation: Array, shift: Array) -> list[Mesh]:
    """An arm from the side of the head, over an elbow, out of the picture, with balls at the joints."""
    side = float(rng.choice([-1.0, 1.0]))
    grip = rotation @ np.array([side * 0.9 * build.width, rng.uniform(-0.3, 0.2), 0.45 * build.depth]) + shift
    elbow = grip + np.array([side * rng.uniform(0.7, 1.1), rng.uniform(-0.5, 0.3), 0.2])
    end = np.array([side * _FAR, rng.uniform(-2.0, 0.5), 0.3])
    thick = float(rng.uniform(0.05, 0.09))
    joints = np.stack([grip, elbow, end])
    bars = tubes(np.stack([joints[:2], joints[1:]]), np.full((2, 2), thick), MATERIAL, sides=16)
    return [bars, *(ball(joint, np.full(3, 1.6 * thick), MATERIAL, n=16) for joint in joints[:2])]


def _wires(build: PuppetBuild, rng: np.random.Generator, rotation: Array, shift: Array) -> list[Mesh]:
    """Two wires from the front of the head up out of the picture."""
    hold = np.array([[side * rng.uniform(0.15, 0.4), 0.45 * build.height, 0.85 * build.depth] for side in (-1, 1)])
    low = hold @ rotation.T + shift
    high = np.stack([1.5 * hold[:, 0], np.full(2, _FAR), hold[:, 2]], 1)
    return [tubes(np.stack([low, high], 1), np.full((2, 2), rng.uniform(0.008, 0.02)), MATERIAL, sides=8)]


def _magnet(build: PuppetBuild, rng: np.random.Generator) -> list[Mesh]:
    """A post on a round foot before the puppet's chest."""
    at = np.array([rng.uniform(-0.6, 0.6), -1.62, 1.0])
    foot = lathe(np.array([[0.0, 0.14], [0.3, 0.14], [0.34, 0.1], [0.34, -0.6]]), MATERIAL, squash=(1.0, 0.6))
    top = at + np.array([0.0, rng.uniform(0.5, 0.8), -0.1])
    post = tubes(np.stack([at, top])[None], np.full((1, 2), rng.uniform(0.04, 0.07)), MATERIAL, sides=16)
    return [foot.moved(np.eye(3), at), post, ball(top, np.full(3, 0.1), MATERIAL, n=16)]
