"""The landmarks and shapes of a stage puppet, their places on its face, and its character sheet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.stage.face import OUTLINE_JAW, FaceSurface

Array = npt.NDArray[Any]

EYE_NAMES = ("inner", "upper_in", "upper_out", "outer", "lower_out", "lower_in")
SAMPLES = 24  # samples per segment to which a spline is fitted


@dataclass(frozen=True, slots=True)
class FaceCurve:
    """One shape on the face: the positions of its control points along it, and the landmarks at these points."""

    name: str
    closed: bool
    role: str
    place: Callable[[FaceSurface, Array], Array]
    knots: tuple[float, ...]
    landmarks: dict[int, str]


def _even(n: int, *, closed: bool) -> tuple[float, ...]:
    return tuple(np.linspace(0, 1, n, endpoint=not closed).tolist())


def _eye_curve(side: int, name: str) -> FaceCurve:
    knots = tuple(i / 6 for i in range(6))
    return FaceCurve(
        f"eye_{name}",
        True,
        "matte",
        lambda f, t: f.eye(side, t),
        knots,
        {i: f"eye_{name}_{n}" for i, n in enumerate(EYE_NAMES)},
    )


def _brow(side: int, name: str) -> FaceCurve:
    knots = _even(8, closed=True)
    return FaceCurve(
        f"brow_{name}",
        True,
        "matte",
        lambda f, t: f.brow(side, t),
        knots,
        {0: f"brow_{name}_0", 1: f"brow_{name}_1", 3: f"brow_{name}_2", 4: f"brow_{name}_3"},
    )


def _side_seam(side: int, name: str) -> FaceCurve:
    return FaceCurve(
        f"seam_{name}",
        False,
        "seam",
        lambda f, t: f.side_seam(side, t),
        _even(5, closed=False),
        {0: f"seam_{name}_top", 4: f"seam_{name}_bottom"},
    )


def _outline_knots() -> tuple[float, ...]:
    jaw = np.linspace(0, OUTLINE_JAW, 9)
    top = np.linspace(OUTLINE_JAW, 1, 8, endpoint=False)[1:]
    return tuple(np.concatenate([jaw, top]).tolist())


CURVES: tuple[FaceCurve, ...] = (
    FaceCurve(
        "seam_bridge",
        False,
        "seam",
        lambda f, t: f.bridge_seam(t),
        _even(17, closed=False),
        {2 * i: f"seam_bridge_{i}" for i in range(9)},
    ),
    _side_seam(0, "right"),
    _side_seam(1, "left"),
    _brow(0, "right"),
    _brow(1, "left"),
    _eye_curve(0, "right"),
    _eye_curve(1, "left"),
    FaceCurve(
        "mouth_outer",
        True,
        "matte",
        lambda f, t: f.mouth(t, inner=False),
        _even(8, closed=True),
        {i: f"mouth_outer_{i}" for i in range(8)},
    ),
    FaceCurve(
        "mouth_inner",
        True,
        "matte",
        lambda f, t: f.mouth(t, inner=True),
        _even(6, closed=True),
        {i: f"mouth_inner_{i}" for i in range(6)},
    ),
    FaceCurve(
        "face_outline", True, "matte", lambda f, t: f.outline(t), _outline_knots(), {i: f"jaw_{i}" for i in range(9)}
    ),
)


def all_landmark_names() -> tuple[str, ...]:
    """All landmark names in the order of the sheet."""
    jaw = [f"jaw_{i}" for i in range(9)]
    brows = [f"brow_{s}_{i}" for s in ("right", "left") for i in range(4)]
    eyes = [f"eye_{s}_{n}" for s in ("right", "left") for n in EYE_NAMES]
    nose = ["nose_bridge", "nose_mid", "nose_tip", "nose_base", "nose_wing_right", "nose_wing_left"]
    mouth = [f"mouth_outer_{i}" for i in range(8)] + [f"mouth_inner_{i}" for i in range(6)]
    seams = [f"seam_bridge_{i}" for i in range(9)] + [
        f"seam_{s}_{w}" for s in ("right", "left") for w in ("top", "bottom")
    ]
    return tuple(jaw + brows + eyes + ["pupil_right", "pupil_left"] + nose + mouth + seams)


def mirror_points(name: str) -> str | None:
    """The landmark on the other side of the face; None for one in the middle."""
    for stem, last in (("jaw_", 8), ("seam_bridge_", 8)):
        if name.startswith(stem):
            other = f"{stem}{last - int(name[len(stem) :])}"
            return None if other == name else other
    if name.startswith("mouth_"):
        stem, index = name.rsplit("_", 1)
        count = 8 if "outer" in stem else 6
        other = f"{stem}_{(count // 2 - int(index)) % count}"
        return None if other == name else other
    if "right" in name:
        return name.replace("right", "left")
    return name.replace("left", "right") if "left" in name else None


def _nose(face: FaceSurface) -> dict[str, Array]:
    b = face.build
    wing = b.nose_width * 1.25
    return {
        "nose_bridge": np.array([0.0, b.nose_e + b.nose_bridge * 0.9]),
        "nose_mid": np.array([0.0, b.nose_e + b.nose_bridge * 0.42]),
        "nose_tip": np.array([0.0, b.nose_e + 0.01]),
        "nose_base": np.array([0.0, b.nose_e - 0.12]),
        "nose_wing_right": np.array([-wing, b.nose_e - 0.02]),
        "nose_wing_left": np.array([wing, b.nose_e - 0.02]),
    }


def pupil(face: FaceSurface, side: int) -> Array:
    """Head-space point (3,) at the centre of an iris."""
    ball = face.eyeballs[side]
    yaw, pitch = face.pose.gaze
    forward = np.array([np.sin(yaw) * np.cos(pitch), np.sin(pitch), np.cos(yaw) * np.cos(pitch)])
    outward = ball.centre / np.linalg.norm(ball.centre)
    look = forward + 0.35 * outward * np.array([1, 1, 0])
    return np.asarray(ball.centre + ball.radius * look / np.linalg.norm(look))


def landmarks(face: FaceSurface) -> dict[str, Array]:
    """Head-space points (3,) of every landmark, by name."""
    chart = dict(_nose(face))
    for curve in CURVES:
        places = curve.place(face, np.array(curve.knots))
        chart.update({name: places[i] for i, name in curve.landmarks.items()})
    flat = np.array(list(chart.values()))
    points = dict(zip(chart, face.surface(flat[:, 0], flat[:, 1])))
    points["pupil_right"], points["pupil_left"] = pupil(face, 0), pupil(face, 1)
    return {name: points[name] for name in all_landmark_names()}


def dense(curve: FaceCurve, face: FaceSurface) -> Array:
    """Head-space points (S, SAMPLES + 1, 3) along each segment of a curve, ends shared between neighbours."""
    knots = list(curve.knots) + ([1.0] if curve.closed else [])
    t = np.stack([np.linspace(a, b, SAMPLES + 1) for a, b in itertools.pairwise(knots)])
    places = curve.place(face, np.clip(t.reshape(-1), 0, 1))
    return face.surface(places[:, 0], places[:, 1]).reshape(*t.shape, 3)


def _from(name: str) -> tuple[str, ...]:
    """The landmarks that a shape is predicted from: its own region of the face."""
    names = all_landmark_names()
    if name.startswith("seam"):
        return tuple(n for n in names if n.startswith(("seam", "nose_b", "nose_m", "eye", "jaw_0", "jaw_8")))
    if name == "face_outline":
        return tuple(n for n in names if n.startswith(("jaw", "brow", "seam_bridge", "seam_left", "seam_right")))
    stem = name.split("_")[0]
    return (
        tuple(n for n in names if n.startswith((name, "mouth")))
        if stem == "mouth"
        else tuple(n for n in names if n.startswith(name))
    )


def puppet_sheet() -> Sheet:
    """The character sheet of every puppet on the stage."""
    weights = {"seam": 1.5, "jaw": 0.7, "pupil": 0.6, "brow": 0.9}
    marks = tuple(LandmarkSpec(n, mirror_points(n), weights.get(n.split("_")[0], 1.0)) for n in all_landmark_names())
    shapes = []
    for c in CURVES:
        seam = c.role == "seam"
        shapes.append(
            ShapeSpec(
                c.name,
                c.closed,
                len(c.knots),
                "seam" if seam else "matte",
                c.landmarks,
                _from(c.name),
                width_share=0.022 if seam else None,
                feather_px=1.0 if seam else 0.0,
            )
        )
    return Sheet("puppet", marks, tuple(shapes))
