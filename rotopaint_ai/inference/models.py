"""A pack's models as callables, which is how the stages get them.

N batch, S side of a square crop, L landmarks, P control points of all shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.pack import (
    FILL_ANSWERS,
    FILL_MULTIPLE,
    SEAM_MULTIPLE,
    SEAM_OFFSETS,
    SEAM_STRIPS,
    Pack,
    fill_channels,
    seam_strip,
)
from rotopaint_ai.inference.process import open_model, read_signature
from rotopaint_ai.inference.session import ModelSession

Array = npt.NDArray[np.float32]


class Detection(NamedTuple):
    """Landmarks found in N crops: crop pixels (corner origin), expected error in crop pixels, probability seen."""

    landmarks_NLC: Array
    expected_error_NL: Array
    visible_NL: Array


class ShapePrediction(NamedTuple):
    """Control points of all shapes (frame of the landmarks), and seam widths where the model gives them."""

    points_NPK: Array
    width_NS: Array | None


@dataclass(frozen=True, slots=True)
class LandmarkModel:
    """`detect(crops)`: float32 (N,S,S,3), display-referred RGB 0..1, to a Detection."""

    session: ModelSession
    input_size: int

    def __call__(self, crops: Array) -> Detection:
        return Detection(*_in_batches(self.session, "crop", ("landmarks", "expected_error", "visible"), crops))


@dataclass(frozen=True, slots=True)
class ShapeModel:
    """`predict(landmarks)`: float32 (N,L,2) in plate space to control points (N,P,6) in plate space, and widths."""

    session: ModelSession

    def __call__(self, landmarks_NLC: Array) -> ShapePrediction:
        names = ("points", "width") if "width" in self.session.signature.outputs else ("points",)
        points, *width = _in_batches(self.session, "landmarks", names, landmarks_NLC)
        return ShapePrediction(points, width[0] if width else None)


@dataclass(frozen=True, slots=True)
class SeamModel:
    """`find_seams(strips)`: float32 (N,T,D,3) to logits (N,T/2,D+1), the `Evidence` of seams/placement.py."""

    session: ModelSession

    @property
    def zooms(self) -> tuple[int, ...]:
        """The resolution of strips for this model, which the name of its input states."""
        return SEAM_STRIPS[self._input_name]

    @property
    def _input_name(self) -> str:
        (name,) = self.session.signature.inputs
        return name

    def __call__(self, strips: Array, /) -> Array:
        return self.session.run(("logits",), {self._input_name: np.ascontiguousarray(strips, dtype=np.float32)})[0]


@dataclass(frozen=True, slots=True)
class FillModel:
    """`fill(strips)`: float32 (N,T,S,12) to answers (N,T,S,7), the `FillModel` of seams/learned_fill.py.

    n_channels: how many of the 12 the file takes, the first ones.
    """

    session: ModelSession
    n_channels: int

    def __call__(self, strips: Array) -> Array:
        strip = np.ascontiguousarray(strips[..., : self.n_channels], dtype=np.float32)
        return self.session.run(("answer",), {"strip": strip})[0]


@dataclass(frozen=True, slots=True)
class FaceModel:
    """`find(pictures)`: float32 (N,H,W,3) to boxes, scores, masks, keypoints; the `FindFaces` of landmarks/faces.py."""

    session: ModelSession

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the pictures that it takes."""
        height, width = self.session.signature.inputs["picture"].shape[1:3]
        assert isinstance(height, int)  # the pack was checked
        assert isinstance(width, int)
        return width, height

    def __call__(self, pictures: Array) -> tuple[Array, Array, Array, Array]:
        names = ("boxes", "scores", "masks", "keypoints")
        boxes, scores, masks, points = _in_batches(self.session, "picture", names, pictures)
        return boxes, scores, masks, points


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a pack, open on the same device."""

    pack: Pack
    detect: LandmarkModel
    predict_shapes: ShapeModel
    find_seams: SeamModel | None = None
    fill: FillModel | None = None

    def close(self) -> None:
        """Give back the models' memory; what is known of them stays."""
        for model in (self.detect, self.predict_shapes, self.find_seams, self.fill):
            if isinstance(session := getattr(model, "session", None), ModelSession):
                session.close()

    @property
    def device_note(self) -> str:
        """Which device ran the landmark model, in words."""
        return self.detect.session.note

    @property
    def ms_per_frame(self) -> float | None:
        """Median milliseconds of both models together per call; None before the first frame."""
        times = (self.detect.session.ms_per_call, self.predict_shapes.session.ms_per_call)
        return None if times[0] is None else times[0] + (times[1] or 0.0)


def open_models(pack: Pack, *, device: str = "auto", threads: int = 0, spinning: bool = False) -> Models:
    """Open a pack's models on a device and run each once.

    The shape model is a few thousand multiplications and the seam model sees a few strips: they always run on the CPU,
    on one thread.
    Raises: DeviceError, InferenceError; PackError when an output has another shape than the pack promises.
    """
    size, n_landmarks = pack.input_size, len(pack.sheet.landmarks)
    face = {"landmarks": np.random.default_rng(0).uniform(0, size, (1, n_landmarks, 2)).astype(np.float32)}
    detect = open_landmarks(pack, device=device, threads=threads, spinning=spinning)
    shapes = ShapeModel(open_model(pack.shapes_path, device="cpu", threads=1, example=face))
    _check_output(pack.shapes_path.name, shapes(face["landmarks"]).points_NPK, (1, pack.sheet.n_points, 6))
    return Models(pack, detect, shapes, _seam_model(pack), open_fill(pack))


def open_landmarks(pack: Pack, *, device: str, threads: int = 0, spinning: bool = False) -> LandmarkModel:
    """A pack's landmark model, as `open_session` would open it. Raises as `open_models`."""
    size, n_landmarks = pack.input_size, len(pack.sheet.landmarks)
    crop = np.full((1, size, size, 3), 0.5, np.float32)
    session = open_model(pack.landmarks_path, device=device, threads=threads, spinning=spinning, example={"crop": crop})
    model = LandmarkModel(session, size)
    found = model(crop)
    _check_output(session.path.name, found.landmarks_NLC, (1, n_landmarks, 2))
    _check_output(session.path.name, found.expected_error_NL, (1, n_landmarks))
    _check_output(session.path.name, found.visible_NL, (1, n_landmarks))
    return model


def open_fill(pack: Pack) -> FillModel | None:
    """A pack's learned fill, where it has one, on one thread of the CPU. Raises as `open_models`."""
    if pack.fill_path is None:
        return None
    n_channels = fill_channels(read_signature(pack.fill_path))
    strip = np.zeros((1, FILL_MULTIPLE * 8, FILL_MULTIPLE * 8, n_channels), np.float32)
    model = FillModel(open_model(pack.fill_path, device="cpu", threads=1, example={"strip": strip}), n_channels)
    _check_output(pack.fill_path.name, model(strip), (*strip.shape[:3], FILL_ANSWERS))
    return model


def open_detector(pack: Pack, *, threads: int = 1) -> FaceModel | None:
    """A pack's face detector, where it has one, on the CPU; it sees a few frames of a shot. Raises as `open_models`."""
    if pack.detector_path is None:
        return None
    example = {"picture": _grey_input(pack.detector_path, "picture")}
    return FaceModel(open_model(pack.detector_path, device="cpu", threads=threads, example=example))


def _grey_input(path: Path, name: str) -> npt.NDArray[np.float32]:
    """A grey picture of the fixed size of a model's input; packs with other inputs were refused."""
    height, width = (int(side or 0) for side in read_signature(path).inputs[name].shape[1:3])
    return np.full((1, height, width, 3), 0.5, np.float32)


def _seam_model(pack: Pack) -> SeamModel | None:
    if pack.seam_path is None:
        return None
    strip = np.zeros((1, 2 * SEAM_MULTIPLE, SEAM_OFFSETS, 3), np.float32)
    name = seam_strip(read_signature(pack.seam_path))
    model = SeamModel(open_model(pack.seam_path, device="cpu", threads=1, example={name: strip}))
    _check_output(pack.seam_path.name, model(strip), (1, SEAM_MULTIPLE, SEAM_OFFSETS + 1))
    return model


def _check_output(name: str, got: Array, wanted: tuple[int, ...]) -> None:
    if got.shape != wanted:
        raise PackError(f"{name}: gives {list(got.shape)} for one frame; wanted {list(wanted)} by the sheet")


def _in_batches(session: ModelSession, name: str, outputs: tuple[str, ...], values: Array) -> list[Array]:
    """Run a model whose batch size may be fixed, joining the parts; a part that is too short is filled up."""
    batch = session.signature.inputs[name].shape[0]
    if not isinstance(batch, int) or batch == len(values):
        return session.run(outputs, {name: np.ascontiguousarray(values, dtype=np.float32)})
    parts = [_run_filled(session, name, outputs, values[at : at + batch], batch) for at in range(0, len(values), batch)]
    return [np.concatenate(column) for column in zip(*parts)]


def _run_filled(session: ModelSession, name: str, outputs: tuple[str, ...], part: Array, batch: int) -> list[Array]:
    filled = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
    inputs: Mapping[str, Array] = {name: np.ascontiguousarray(filled, dtype=np.float32)}
    return [output[: len(part)] for output in session.run(outputs, inputs)]
