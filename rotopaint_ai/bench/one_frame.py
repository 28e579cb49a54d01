"""Time of one frame's landmarks and shapes: our pack and published networks alternate on the same 1080p plate.

Each turn cuts the face out of scene-linear pixels, prepares the network's input, runs the network and decodes the
landmarks. Our turn reads the crop plain and mirrored, as a run does, and also computes shapes. The weights of the
published networks (peers) are random, so only their time is meaningful.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, CropKeys, cut
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.onnx_session import open_session
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.inference.process import usage
from rotopaint_ai.landmarks.detect import Follower
from rotopaint_ai.plates.colour import to_display

WIDTH, HEIGHT = 1920, 1080
FACE = Crop(960.0, 540.0, 620.0)
LIMIT_MS = 6.0  # goal P8, where a peer takes 10 to 17 ms on the same machine
_WARM_UP = 5

Picture = npt.NDArray[np.float32]
TimedCall = Callable[[Picture], Any]


def compare(pack: str | None, *, threads: int, rounds: int) -> dict[str, Any]:
    """Median milliseconds of one frame and the ratios, as JSON values. Without PyTorch no peer can be built."""
    plate = np.random.default_rng(0).random((HEIGHT, WIDTH, 3), dtype=np.float32)
    models = open_models(load_pack(pack), device="cpu", threads=threads)
    with tempfile.TemporaryDirectory() as scratch:
        turns: dict[str, TimedCall] = {
            "ours": lambda rgb: predict_points(models, rgb),
            "crop alone": lambda rgb: _crop_picture(models, rgb),
        }
        turns |= _peers(Path(scratch), models, threads)
        times = take_turns(turns, plate, rounds)
    middle = {name: median(wall for wall, _ in values) for name, values in times.items()}
    processor = {name: median(cpu for _, cpu in values) for name, values in times.items()}
    peers = [name for name in times if name not in ("ours", "crop alone")]
    return {
        "benchmark": "infer",
        "pack": models.pack.name,
        "input_size": models.pack.input_size,
        "threads": threads,
        "rounds": rounds,
        "ms": {name: round(value, 3) for name, value in middle.items()},
        "fastest_ms": {name: round(min(wall for wall, _ in values), 3) for name, values in times.items()},
        "processor_ms": {name: round(value, 3) for name, value in processor.items()},
        "peer_over_ours": {name: round(middle[name] / middle["ours"], 2) for name in peers},
        "peer_over_ours_by_processor": {name: round(processor[name] / processor["ours"], 2) for name in peers},
        "goal": f"{LIMIT_MS:g} ms where a peer takes 10 to 17 ms",
        "note": None if peers else "no peer: building one needs PyTorch",
    }


TurnTime = tuple[float, float]  # milliseconds of wall time and of processor time


def take_turns(turns: Mapping[str, TimedCall], plate: Picture, rounds: int) -> dict[str, list[TurnTime]]:
    """The time of each turn in each round after a warm-up; every network has one turn per round."""
    times: dict[str, list[TurnTime]] = {name: [] for name in turns}
    for round_ in range(_WARM_UP + rounds):
        for name, turn in turns.items():
            cpu, start = _processor_s(), time.perf_counter()
            turn(plate)
            taken = (time.perf_counter() - start) * 1000, (_processor_s() - cpu) * 1000
            if round_ >= _WARM_UP:
                times[name].append(taken)
    return times


def _processor_s() -> float:
    """Processor time so far, of this process and of the model process. The cost of asking is part of every turn."""
    return time.process_time() + usage()["processor_s"]


def _crop_picture(models: Models, plate: Picture) -> Picture:
    picture = to_display(cut(plate, (0, 0), FACE, models.pack.input_size))
    return np.ascontiguousarray(picture[None], dtype=np.float32)


def predict_points(models: Models, plate: Picture) -> npt.NDArray[np.float32]:
    """Control points of all shapes in plate space, computed from a plate as a run does."""
    pack = models.pack
    follower = Follower(models.detect, pack.input_size, CropKeys(), to_display, holds=None)
    landmarks = follower._read_crop(plate, (0, 0), FACE).points_LC
    return models.predict_shapes(landmarks[None].astype(np.float32)).points_NPK


def _peers(folder: Path, models: Models, threads: int) -> dict[str, TimedCall]:
    """Published networks with the pack's number of landmarks, exported to ONNX and run on the same threads."""
    if find_spec("torch") is None:
        return {}
    from rotopaint_ai.bench.peer_nets import PEERS

    turns: dict[str, TimedCall] = {}
    for name, peer in PEERS.items():
        path = folder / f"{len(turns)}.onnx"
        peer.export(len(models.pack.sheet.landmarks), path)
        example = np.zeros((1, 3, peer.size_px, peer.size_px), np.float32)
        session = open_session(path, device="cpu", threads=threads, example={"crop": example})
        turns[name] = lambda plate, session=session, peer=peer: predict_peer(session, peer, plate)  # type: ignore[misc]
    return turns


def predict_peer(session: Any, peer: Any, plate: Picture) -> npt.NDArray[np.float64]:
    """Landmarks (L, 2) in plate space, predicted by a `peer_nets.Peer`: crop, normalise, run, decode."""
    picture = to_display(cut(plate, (0, 0), FACE, peer.size_px))
    mean, spread = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    values = np.ascontiguousarray(((picture - mean) / spread).transpose(2, 0, 1)[None], dtype=np.float32)
    return FACE.to_plate(peer.decode(session.run(peer.outputs, {"crop": values})), peer.size_px)
