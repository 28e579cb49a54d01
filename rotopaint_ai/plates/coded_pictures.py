"""8-bit pictures encoded in memory and in files: JPEG, PNG, raw arrays, YUV planes, and clips of several pictures.

A clip is a small H.264 movie with a few pictures of one shot. Only its first picture is a keyframe, so reaching any
picture means decoding at most `CLIP_LENGTH` pictures. Smaller pictures are padded at the right and at the bottom to the
size of the clip; the caller crops them after decoding. Pixels are stored as YUV planes (I420).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DiskError
from rotopaint_ai.files import replacing

Picture = npt.NDArray[np.uint8]
_RAW = b"\x93NUMPY"  # the header of a .npy file with one array
_JPEG, _PNG = b"\xff\xd8", b"\x89PNG\r\n\x1a\n"

_RAW_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '\|u1', 'fortran_order': False, 'shape': \((?P<rows>\d+), (?P<columns>\d+)(?P<rgb>, 3)?\), \} *\n",
    re.DOTALL,
)


def write_picture(path: Path, picture_rgb: Picture, *, quality: int = 95) -> None:
    """Write an (H, W, 3) RGB picture as JPEG or PNG, chosen by suffix."""
    with replacing(path) as beside:
        options = [cv2.IMWRITE_JPEG_QUALITY, quality] if path.suffix.lower() in (".jpg", ".jpeg") else []
        if not cv2.imwrite(str(beside), cv2.cvtColor(picture_rgb, cv2.COLOR_RGB2BGR), options):
            raise DiskError(f"{path}: the picture could not be written; check the disk, its space and its permissions")


def decode(data: memoryview | bytes) -> Picture | None:
    """A JPEG, PNG or raw picture as (H, W, 3) RGB; None where `data` is not a picture or the picture is too large.

    JPEG uses the fastest decoder that is installed. A .npy file of three dimensions is returned as a read-only view of
    `data`, without a copy. A .npy file of two dimensions holds I420 planes: luma at full size, then both chroma planes
    at half size.
    """
    if bytes(data[:6]) == _RAW:
        stored = _load_array(data)
        return stored if stored is None or stored.ndim == 3 else _from_planes(stored)
    try:
        return _by_decoder(data) if 0 < _promised_pixels(data) <= _MOST_PIXELS else None
    except (ValueError, cv2.error):
        return None


def _promised_pixels(data: memoryview | bytes) -> int:
    """The number of pixels that the header of a JPEG or PNG promises; 0 for any other data. Nothing is decoded."""
    head, fast = bytes(data[:24]), _fast_jpeg()
    if head[:8] == _PNG and len(head) == 24:
        return int.from_bytes(head[16:20]) * int.from_bytes(head[20:])
    if head[:2] != _JPEG:
        return 0
    return math.prod(fast.decode_jpeg_header(data)[:2]) if fast else 1  # OpenCV has a limit of its own, 2^30


def _by_decoder(data: memoryview | bytes) -> Picture | None:
    fast = _fast_jpeg()
    if fast is not None and bytes(data[:2]) == _JPEG:
        return cast(Picture, fast.decode_jpeg(data))
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return None if found is None else cast(Picture, cv2.cvtColor(found, cv2.COLOR_BGR2RGB))


def planes(picture: Picture) -> Picture | None:
    """A picture (H, W, 3) as I420 planes (H * 3 / 2, W), as movies store it; None where a side is odd."""
    height, width = picture.shape[:2]
    return None if height % 2 or width % 2 else cast(Picture, cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420))


def _from_planes(stored: Picture, place: Picture | None = None) -> Picture | None:
    """Planes converted to RGB, written into `place` where it is given; None where `stored` cannot be I420 planes."""
    try:
        return cast(Picture, cv2.cvtColor(stored, cv2.COLOR_YUV2RGB_I420, dst=place))
    except cv2.error:
        return None


def _load_array(data: memoryview | bytes) -> Picture | None:
    """The array in a .npy file."""
    # np.load parses the header as Python source, and that parser fails at random under Python 3.11
    head = _RAW_HEAD.match(bytes(data[:256]))
    if head is None or head.end() != 10 + int.from_bytes(head["length"], "little"):
        return None
    try:
        shape = (int(head["rows"]), int(head["columns"]), *((3,) if head["rgb"] else ()))
        return np.frombuffer(data, np.uint8, offset=head.end()).reshape(shape)
    except ValueError:
        return None


def decode_into(data: memoryview, place: Picture) -> bool:
    """Decode a JPEG or planes of exactly the size of `place` into it.

    Returns False where that fails; the content of `place` is then undefined.
    """
    if bytes(data[:6]) == _RAW:
        stored = _load_array(data)
        fits = stored is not None and stored.shape == (place.shape[0] * 3 // 2, place.shape[1])
        return stored is not None and fits and _from_planes(stored, place) is not None
    fast = _fast_jpeg()
    try:
        if fast is None or fast.decode_jpeg_header(data)[:2] != place.shape[:2]:
            return False
        fast.decode_jpeg(data, buffer=place)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1)
def _fast_jpeg() -> Any:
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


CLIP_LENGTH = 12
CLIP_SUFFIX = ".mp4"
_ENCODER, _DECODER = "libx264", "h264"
_OPTIONS = {"crf": "18", "tune": "fastdecode", "bf": "0", "sc_threshold": "0"}
_MOST_PIXELS = 64 << 20  # limit of one picture, checked before memory is allocated


def encode_clip(pictures: Sequence[Picture]) -> bytes:
    """Pictures (H, W, 3) RGB as one movie. On one machine, equal pictures give equal bytes."""
    import av  # imported late: it slows the start, and few data sets use clips

    height, width = (max(picture.shape[axis] for picture in pictures) + 1 & ~1 for axis in (0, 1))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4", options={"fflags": "+bitexact"}) as movie:
        stream = cast(Any, movie.add_stream(_ENCODER, rate=24, options=_OPTIONS))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.thread_count = CLIP_LENGTH, 1
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(_enlarge_picture(picture, height, width), format="yuv420p")
            movie.mux(stream.encode(frame))
        movie.mux(stream.encode())
    return file.getvalue()


def _enlarge_picture(picture: Picture, height: int, width: int) -> Picture:
    below, right = height - picture.shape[0], width - picture.shape[1]
    grown = cv2.copyMakeBorder(picture, 0, below, 0, right, cv2.BORDER_REPLICATE)
    return cast(Picture, cv2.cvtColor(grown, cv2.COLOR_RGB2YUV_I420))


def decode_clip(data: memoryview | bytes, numbers: Sequence[int]) -> list[Picture]:
    """Pictures of a clip by number, RGB, at the size of the clip.

    Raises: ValueError where a picture cannot be decoded, for example in a movie that `encode_clip` did not write."""
    import av

    wanted, found = set(numbers), {}
    try:
        with cast(Any, av.open(io.BytesIO(data), "r", format="mp4")) as movie:
            stream = movie.streams.video[0]
            if max(wanted) >= CLIP_LENGTH or stream.codec_context is None or stream.codec_context.name != _DECODER:
                raise ValueError("is no clip")
            stream.codec_context.thread_count = 1  # callers already decode several clips in parallel
            stream.codec_context.options = {"max_pixels": str(_MOST_PIXELS)}
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
