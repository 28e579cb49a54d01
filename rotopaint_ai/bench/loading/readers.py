"""Readers of clips: our own, and those of installed libraries."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.bench.loading.encoded_shots import FPS, EncodedShot

Clip = npt.NDArray[Any]  # (T, H, W, 3) RGB
ReadClip = Callable[[int, int], Clip]  # first frame, number of frames
Open = Callable[[Path], ReadClip]


def readers_of(source: EncodedShot) -> Mapping[str, Open]:
    """The readers of a source by name, without libraries that are not installed."""
    if source.kind == "shards":
        return {"mapped tar": _open_shards}
    if source.kind == "files":
        return {".exr": {"OpenImageIO": _open_oiio}}.get(source.files[0].suffix, _FILES)
    return {name: way for name, (module, way) in _MOVIES.items() if find_spec(module) is not None}


def list_missing() -> list[str]:
    """Names of movie libraries that are not installed."""
    return [name for name, (module, _) in _MOVIES.items() if find_spec(module) is None]


def forget(source: EncodedShot) -> None:
    """Drop a source from the system's page cache, so that the next read comes from the disk."""
    for path in source.files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _open_pyav(path: Path) -> ReadClip:
    """The usual method: seek to the keyframe before the clip, then decode up to the clip."""
    import av

    container = av.open(str(path))
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"

    def read(first: int, count: int) -> Clip:
        assert stream.time_base is not None
        container.seek(int(first / FPS / stream.time_base), stream=stream)
        found = []
        for frame in container.decode(stream):
            assert frame.pts is not None
            if round(float(frame.pts * stream.time_base) * FPS) >= first:
                found.append(frame.to_ndarray(format="rgb24"))
            if len(found) == count:
                break
        return np.stack(found)

    return read


def _open_cv2(path: Path) -> ReadClip:
    capture = cv2.VideoCapture(str(path))

    def read(first: int, count: int) -> Clip:
        capture.set(cv2.CAP_PROP_POS_FRAMES, first)
        return np.stack([cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB) for _ in range(count)])

    return read


def _open_ffmpeg(path: Path) -> ReadClip:
    """A pipe from the ffmpeg program, as imageio and moviepy do it."""
    import imageio_ffmpeg

    program = imageio_ffmpeg.get_ffmpeg_exe()
    capture = cv2.VideoCapture(str(path))
    width, height = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
    capture.release()

    def read(first: int, count: int) -> Clip:
        words = [program, "-v", "error", "-ss", f"{(first - 0.25) / FPS if first else 0:.6f}", "-i", str(path)]
        words += ["-frames:v", str(count), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        data = subprocess.run(words, capture_output=True, check=True).stdout
        return np.frombuffer(data, np.uint8).reshape(-1, height, width, 3)

    return read


def _open_torchcodec(path: Path) -> ReadClip:
    from torchcodec.decoders import VideoDecoder  # type: ignore[attr-defined]

    decoder = VideoDecoder(str(path), dimension_order="NHWC")

    def read(first: int, count: int) -> Clip:
        return np.asarray(decoder.get_frames_in_range(first, first + count).data)

    return read


def _open_decord(path: Path) -> ReadClip:
    import decord

    reader = decord.VideoReader(str(path))

    def read(first: int, count: int) -> Clip:
        return np.asarray(reader.get_batch(range(first, first + count)).asnumpy())

    return read


def _open_cv2_files(folder: Path) -> ReadClip:
    names = sorted(folder.iterdir())

    def read(first: int, count: int) -> Clip:
        pictures: Any = (cv2.imread(str(name)) for name in names[first : first + count])
        return np.stack([cv2.cvtColor(picture, cv2.COLOR_BGR2RGB) for picture in pictures])

    return read


def _open_oiio(folder: Path) -> ReadClip:
    import OpenImageIO as oiio

    names = sorted(folder.iterdir())

    def one(path: Path) -> Clip:
        opened: Any = oiio.ImageInput.open(str(path))
        pixels = opened.read_image("half")
        opened.close()
        return np.asarray(pixels)

    def read(first: int, count: int) -> Clip:
        return np.stack([one(name) for name in names[first : first + count]])

    return read


def _open_shards(folder: Path) -> ReadClip:
    from rotopaint_ai.training.data.dataset import read_dataset

    data = read_dataset(folder)
    (packed,) = data.shard_sets

    def read(first: int, count: int) -> Clip:
        chosen = data.samples[first : first + count]
        return packed.clip([sample.image for sample in chosen], (chosen[0].width, chosen[0].height))

    return read


_MOVIES: Mapping[str, tuple[str, Open]] = {
    "PyAV": ("av", _open_pyav),
    "OpenCV": ("cv2", _open_cv2),
    "imageio-ffmpeg pipe": ("imageio_ffmpeg", _open_ffmpeg),
    "TorchCodec": ("torchcodec", _open_torchcodec),
    "decord": ("decord", _open_decord),
}
_FILES: Mapping[str, Open] = {"OpenCV": _open_cv2_files}
