"""Pictures as clips: a few of one shot as a small h264 movie, a member of a shard like any picture.

A clip begins with its only key picture, so that any picture of a shot is reached by decoding `LENGTH` at most. Pictures
of other sizes are grown at the right and below to that of the clip, and cut again when they are read. Kept are planes
(I420), as `read.planes` has them.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
LENGTH = 12
SUFFIX = ".mp4"
ENCODER, DECODER = "libx264", "h264"
OPTIONS = {"crf": "18", "tune": "fastdecode", "bf": "0", "sc_threshold": "0"}
MOST_PIXELS = 64 << 20  # of one picture, before memory is asked for


def encode_clip(pictures: Sequence[Picture]) -> bytes:
    """Pictures (H, W, 3) RGB as one movie; the same bytes for the same pictures on one machine."""
    import av  # costs its start, and few data sets are in clips

    height, width = (max(picture.shape[axis] for picture in pictures) + 1 & ~1 for axis in (0, 1))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4", options={"fflags": "+bitexact"}) as movie:
        stream = cast(Any, movie.add_stream(ENCODER, rate=24, options=OPTIONS))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.thread_count = LENGTH, 1
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(_enlarged(picture, height, width), format="yuv420p")
            movie.mux(stream.encode(frame))
        movie.mux(stream.encode())
    return file.getvalue()


def _enlarged(picture: Picture, height: int, width: int) -> Picture:
    below, right = height - picture.shape[0], width - picture.shape[1]
    grown = cv2.copyMakeBorder(picture, 0, below, 0, right, cv2.BORDER_REPLICATE)
    return cast(Picture, cv2.cvtColor(grown, cv2.COLOR_RGB2YUV_I420))


def decode_clip(data: memoryview | bytes, numbers: Sequence[int]) -> list[Picture]:
    """Pictures of a clip by number, RGB, of the clip's size. Raises ValueError where one cannot be decoded, as in a
    movie that `encode_clip` does not make."""
    import av

    wanted, found = set(numbers), {}
    try:
        with cast(Any, av.open(io.BytesIO(data), "r", format="mp4")) as movie:
            stream = movie.streams.video[0]
            if max(wanted) >= LENGTH or stream.codec_context is None or stream.codec_context.name != DECODER:
                raise ValueError("is no clip")
            stream.codec_context.thread_count = 1  # clips are decoded side by side
            stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
            for number, frame in enumerate(movie.decode(stream)):
                if number in wanted:
                    found[number] = _picture(frame)
                if len(found) == len(wanted):
                    break
        return [found[number] for number in numbers]
    except (av.FFmpegError, LookupError, ValueError, cv2.error) as error:
        raise ValueError("cannot be read as a clip") from error


def _picture(frame: Any) -> Picture:
    if frame.width % 2 or frame.height % 2:
        raise ValueError("a side is odd")
    return cast(Picture, cv2.cvtColor(frame.to_ndarray(format="yuv420p"), cv2.COLOR_YUV2RGB_I420))
