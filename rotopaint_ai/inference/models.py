"""A pack's models as callables.

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
from rotopaint_ai.inference.onnx_session import ModelSession
from rotopaint_ai.inference.pack import (
    FEATURED_STRIP,
    FILL_ANSWERS,
    FILL_CHANNELS,
    FILL_MULTIPLE,
    SEAM_MULTIPLE,
    SEAM_N_FEATURES,
    SEAM_OFFSETS,
    SEAM_STRIPS,
    Pack,
    seam_strip,
)
from rotopaint_ai.inference.process import open_model, read_signature

Array = npt.NDArray[np.float32]
_N_TIMED = 20  # calls of a measurement


class Detection(NamedTuple):
    """Landmarks in N crops: crop pixels (corner origin), expected error in crop pixels, probability that each is
    visible."""

    landmarks_NLC: Array
    expected_error_NL: Array
    visible_NL: Array


class ShapePrediction(NamedTuple):
    """Control points of all shapes in the landmarks' space, and seam widths where the model predicts them."""

    points_NPK: Array
    width_NS: Array | None


@dataclass(frozen=True, slots=True)
class LandmarkModel:
    """`detect(crops)`: crops float32 (N,S,S,3), display-referred RGB 0..1."""

    session: ModelSession
    input_size: int

    def __call__(self, crops: Array) -> Detection:
        return Detection(*_in_batches(self.session, "crop", ("landmarks", "expected_error", "visible"), crops))


@dataclass(frozen=True, slots=True)
class ShapeModel:
    """`predict(landmarks)`: landmarks float32 (N,L,2) to control points (N,P,6) and widths, all in plate space."""

    session: ModelSession

    def __call__(self, landmarks_NLC: Array) -> ShapePrediction:
        names = ("points", "width") if "width" in self.session.signature.outputs else ("points",)
        points, *width = _in_batches(self.session, "landmarks", names, landmarks_NLC)
        return ShapePrediction(points, width[0] if width else None)


@dataclass(frozen=True, slots=True)
class SeamModel:
    """`find_seams(strips)`: float32 (N,T,D,C) to logits (N,T/2,D+1), the `Evidence` of seams/placement.py."""

    session: ModelSession
    describe: ModelSession | None = None  # the network of its features

    @property
    def zooms(self) -> tuple[int, ...]:
        """Resolutions of strips that this model accepts; the name of its input tells them."""
        return SEAM_STRIPS[self._input_name]

    @property
    def _input_name(self) -> str:
        (name,) = self.session.signature.inputs
        return name

    def features(self, picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.float16] | None:
        """The features (H,H,F) of a crop (S,S,3); None for a model of pictures alone."""
        if self.describe is None:
            return None
        crop = picture[None].astype(np.float32) / np.float32(255)
        found: Array = self.describe.run(("features",), {"crop": crop})[0][0]
        return found.astype(np.float16)

    def __call__(self, strips: Array, /) -> Array:
        return self.session.run(("logits",), {self._input_name: np.ascontiguousarray(strips, dtype=np.float32)})[0]


@dataclass(frozen=True, slots=True)
class FillModel:
    """`fill(strips)`: float32 (N,T,S,11) to answers (N,T,S,6), the `LearnedFill` of seams/learned_fill.py."""

    session: ModelSession

    def __call__(self, strips: Array) -> Array:
        return self.session.run(("answer",), {"strip": np.ascontiguousarray(strips, np.float32)})[0]


@dataclass(frozen=True, slots=True)
class FaceModel:
    """`find(pictures)`: float32 (N,H,W,3) to boxes, scores, masks and keypoints: `landmarks.faces.FaceDetector`."""

    session: ModelSession

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the input pictures."""
        height, width = self.session.signature.inputs["picture"].shape[1:3]
        assert isinstance(height, int)  # loading the pack has checked it
        assert isinstance(width, int)
        return width, height

    def __call__(self, pictures: Array) -> tuple[Array, Array, Array, Array]:
        names = ("boxes", "scores", "masks", "keypoints")
        boxes, scores, masks, points = _in_batches(self.session, "picture", names, pictures)
        return boxes, scores, masks, points


@dataclass(frozen=True, slots=True)
class FrontModel:
    """`find(crops)`: float32 (N,S,S,3) display-referred to coverage (N,S,S): the `FrontFinder` of seams/front.py."""

    session: ModelSession

    @property
    def size(self) -> int:
        """Side S of the input crops."""
        side = self.session.signature.inputs["crop"].shape[1]
        assert isinstance(side, int)  # loading the pack has checked it
        return side

    def __call__(self, crops: Array, /) -> Array:
        return _in_batches(self.session, "crop", ("front",), crops)[0]


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a pack, open on the same device."""

    pack: Pack
    detect: LandmarkModel
    predict_shapes: ShapeModel
    find_seams: SeamModel | None = None
    fill: FillModel | None = None
    find_front: FrontModel | None = None

    def close(self) -> None:
        """Free the models' memory; their metadata stays."""
        for model in (self.detect, self.predict_shapes, self.find_seams, self.fill, self.find_front):
            for name in ("session", "describe"):
                if isinstance(session := getattr(model, name, None), ModelSession):
                    session.close()

    @property
    def device_note(self) -> str:
        """Which device runs the landmark model, in words."""
        return self.detect.session.note

    @property
    def ms_per_frame(self) -> float | None:
        """Median milliseconds per frame of the landmark and shape models together; None before the first call."""
        times = (self.detect.session.ms_per_call, self.predict_shapes.session.ms_per_call)
        return None if times[0] is None else times[0] + (times[1] or 0.0)

    def measure_ms(self) -> float:
        """`ms_per_frame` of a few calls made now, with the threads that the models were opened with."""
        size, n_landmarks = self.pack.input_size, len(self.pack.sheet.landmarks)
        crop, face = np.full((1, size, size, 3), 0.5, np.float32), np.ones((1, n_landmarks, 2), np.float32)
        face[0, :, 0] = np.arange(n_landmarks)
        for session in (self.detect.session, self.predict_shapes.session):
            session.forget_times()
        for _ in range(_N_TIMED):
            self.detect(crop)
            self.predict_shapes(face)
        return self.ms_per_frame or 0.0


def open_models(pack: Pack, *, device: str = "auto", threads: int = 0, spinning: bool = False) -> Models:
    """Open a pack's models on a device and run each once.

    All but the landmark model are small and always run on the CPU, on one thread.

    Raises: DeviceError, InferenceError; PackError when an output does not have the shape that the pack format demands.
    """
    size, n_landmarks = pack.input_size, len(pack.sheet.landmarks)
    face = {"landmarks": np.random.default_rng(0).uniform(0, size, (1, n_landmarks, 2)).astype(np.float32)}
    detect = open_landmarks(pack, device=device, threads=threads, spinning=spinning)
    shapes = ShapeModel(open_model(pack.shapes_path, device="cpu", threads=1, example=face))
    _check_output(pack.shapes_path.name, shapes(face["landmarks"]).points_NPK, (1, pack.sheet.n_points, 6))
    return Models(pack, detect, shapes, _seam_model(pack), open_fill(pack), open_front(pack))


def open_landmarks(pack: Pack, *, device: str, threads: int = 0, spinning: bool = False) -> LandmarkModel:
    """Open a pack's landmark model and check its outputs. Arguments as `onnx_session.open_session`; raises as
    `open_models`."""
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
    """A pack's learned fill on one CPU thread; None where there is none. Raises as `open_models`."""
    if pack.fill_path is None:
        return None
    strip = np.zeros((1, FILL_MULTIPLE * 8, FILL_MULTIPLE * 8, FILL_CHANNELS), np.float32)
    model = FillModel(open_model(pack.fill_path, device="cpu", threads=1, example={"strip": strip}))
    _check_output(pack.fill_path.name, model(strip), (*strip.shape[:3], FILL_ANSWERS))
    return model


def open_detector(pack: Pack, *, threads: int = 1) -> FaceModel | None:
    """A pack's face detector on the CPU; None where it has none. Raises as `open_models`."""
    if pack.detector_path is None:
        return None
    example = {"picture": _grey_input(pack.detector_path, "picture")}
    return FaceModel(open_model(pack.detector_path, device="cpu", threads=threads, example=example))


def open_front(pack: Pack) -> FrontModel | None:
    """A pack's segmentation network on one CPU thread; None where it has none. Raises as `open_models`."""
    if pack.front_path is None:
        return None
    crop = _grey_input(pack.front_path, "crop")
    model = FrontModel(open_model(pack.front_path, device="cpu", threads=1, example={"crop": crop}))
    _check_output(pack.front_path.name, model(crop), crop.shape[:3])
    return model


def _grey_input(path: Path, name: str) -> npt.NDArray[np.float32]:
    """A grey picture of a model's input size, which `load_pack` has checked to be fixed."""
    height, width = (int(side or 0) for side in read_signature(path).inputs[name].shape[1:3])
    return np.full((1, height, width, 3), 0.5, np.float32)


def _seam_model(pack: Pack) -> SeamModel | None:
    if pack.seam_path is None:
        return None
    name = seam_strip(read_signature(pack.seam_path))
    described = pack.seam_features_path if name == FEATURED_STRIP else None
    n_channels = 3 if described is None else 3 + SEAM_N_FEATURES
    strip = np.zeros((1, 2 * SEAM_MULTIPLE, SEAM_OFFSETS, n_channels), np.float32)
    seams = open_model(pack.seam_path, device="cpu", threads=1, example={name: strip})
    if described is None:
        model = SeamModel(seams)
    else:
        crop = _grey_input(described, "crop")
        model = SeamModel(seams, open_model(described, device="cpu", threads=1, example={"crop": crop}))
    _check_output(pack.seam_path.name, model(strip), (1, SEAM_MULTIPLE, SEAM_OFFSETS + 1))
    return model


def _check_output(name: str, got: Array, wanted: tuple[int, ...]) -> None:
    if got.shape != wanted:
        raise PackError(f"{name}: gives {list(got.shape)} for one frame; wanted {list(wanted)} by the sheet")


def _in_batches(session: ModelSession, name: str, outputs: tuple[str, ...], values: Array) -> list[Array]:
    """Run a model whose batch size may be fixed: split the batch, pad the last part, and concatenate the outputs."""
    batch = session.signature.inputs[name].shape[0]
    if not isinstance(batch, int) or batch == len(values):
        return session.run(outputs, {name: np.ascontiguousarray(values, dtype=np.float32)})
    parts = [_run_padded(session, name, outputs, values[at : at + batch], batch) for at in range(0, len(values), batch)]
    return [np.concatenate(column) for column in zip(*parts)]


def _run_padded(session: ModelSession, name: str, outputs: tuple[str, ...], part: Array, batch: int) -> list[Array]:
    padded = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
    inputs: Mapping[str, Array] = {name: np.ascontiguousarray(padded, dtype=np.float32)}
    return [output[: len(part)] for output in session.run(outputs, inputs)]
