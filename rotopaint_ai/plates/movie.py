"""Movies: frames by number from 1, with equal pixels whether they are read in order or at random.

Frame numbers follow the sorted presentation times of all packets, so that seeking to a frame and playing up to it give
the same picture. Where the stream does not name its colours: BT.709 for 720 lines and more, else BT.601.
"""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import Colorspace, Interpolation
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError, UnsupportedPlateError
from rotopaint_ai.plates.picture import Header, Picture, check_header_size

Array = NDArray[Any]

_FLAGS = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT
_STATED = {1: Colorspace.ITU709, 4: Colorspace.FCC, 5: Colorspace.ITU601, 6: Colorspace.ITU601, 7: Colorspace.SMPTE240M}
_STATED |= {9: Colorspace.BT2020, 10: Colorspace.BT2020}
_FAILURES = (av.FFmpegError, ValueError, OverflowError, RuntimeError, MemoryError)
_NEAR = 48  # up to so many frames ahead, decoding is used in place of a seek


class Movie:
    """One video stream of a movie file. Thread-safe; holds one decoder and one frame."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._container: Any = None
        self._frames: Iterator[Any] = iter(())
        self._next = 0
        try:
            self._times, self._index, self.n_lost, self._content = _scan(path)
            first = self._decoded_frame(0)
        except _FAILURES as error:
            self.close()
            raise DamagedFrameError(
                f"{path.name}: movie cannot be read ({_error_text(error)}); export it again"
            ) from error
        except BaseException:
            self.close()
            raise
        self.header = self._describe(first)

    @property
    def n_frames(self) -> int:
        """The number of frames in the file."""
        return len(self._times)

    def read(self, frame: int) -> Picture:
        """Frame 1..n_frames as RGB codes, uint8, or uint16 for more than 8 bit.

        Raises: MissingFrameError beyond the end, DamagedFrameError where the frame cannot be decoded.
        """
        if not 1 <= frame <= self.n_frames:
            raise MissingFrameError(f"{self.path.name}: frame {frame} is not in this movie of frames 1-{self.n_frames}")
        with self._lock:
            try:
                picture = self._decoded_frame(frame - 1)
                return Picture(self.header, self._picture_codes(picture, frame))
            except _FAILURES as error:
                self._stop()
                raise self._broken(frame, _error_text(error)) from error

    def is_unchanged(self) -> bool:
        """Open the file again and tell whether it still has the same packets as at first."""
        with self._lock:
            self._stop()
            try:
                return _scan(self.path)[-1] == self._content
            except (*_FAILURES, PlateError):
                return False

    def close(self) -> None:
        """Close the file; a later read opens it again."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        self._frames = iter(())
        if self._container is not None:
            self._container.close()
        self._container = None

    def _broken(self, frame: int, reason: str) -> DamagedFrameError:
        return DamagedFrameError(
            f"{self.path.name}: frame {frame} cannot be decoded ({reason}); export the movie again"
        )

    def _decoded_frame(self, row: int) -> Any:
        """The decoded frame at index `row` of the presentation order."""
        if self._container is None or not self._next <= row < self._next + _NEAR:
            self._seek(row)
        wanted = self._times[row]
        for picture in self._frames:
            if picture.pts is None or picture.pts < wanted:
                continue
            self._next = bisect_left(self._times, picture.pts) + 1
            if picture.pts == wanted:
                return picture
            break
        self._stop()
        raise self._broken(row + 1, "its data is missing")

    def _seek(self, row: int) -> None:
        if self._container is None:
            self._container = _open_container(self.path)
            self._container.streams[self._index].thread_type = "AUTO"
        stream = self._container.streams[self._index]
        self._container.seek(self._times[row], stream=stream, backward=True)
        self._frames = _decode(self._container, stream)
        self._next = row

    def _describe(self, picture: Any) -> Header:
        check_header_size(self.path.name, picture.width, picture.height)
        stream = self._container.streams[self._index]
        aspect = stream.sample_aspect_ratio
        rate = stream.average_rate or stream.guessed_rate
        deep = max(component.bits for component in picture.format.components) > 8
        return Header(
            width=picture.width,
            height=picture.height,
            x=0,
            y=0,
            data_width=picture.width,
            data_height=picture.height,
            pixel_aspect=float(aspect) if aspect else 1.0,
            fps=float(rate) if rate else None,
            colourspace="Rec.709",
            maximum=65535 if deep else 255,
            is_lossy=True,
            detail=deep,
        )

    def _picture_codes(self, picture: Any, frame: int) -> Array:
        if (picture.width, picture.height) != (self.header.width, self.header.height):
            raise self._broken(frame, f"it is {picture.width} x {picture.height}")
        unstated = Colorspace.ITU709 if picture.height >= 720 else Colorspace.ITU601
        space = _STATED.get(int(picture.colorspace), unstated)
        converted = picture.reformat(
            format="rgb48le" if self.header.detail else "rgb24",
            src_colorspace=space,
            dst_colorspace=space,
            interpolation=_FLAGS,
            threads=1,
        )
        return np.ascontiguousarray(converted.to_ndarray())


def _open_container(path: Path) -> Any:
    return av.open(str(path), metadata_errors="replace")


def _error_text(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(str(text).split())[:120]


def _decode(container: Any, stream: Any) -> Iterator[Any]:
    for packet in container.demux(stream):
        try:
            yield from packet.decode()
        except av.error.InvalidDataError:  # a broken packet: the frames after it may be whole
            continue


def _scan(path: Path) -> tuple[list[int], int, int, str]:
    """Read all packets: the frames' presentation times (ascending), the stream, the missing frames, a hash.

    The missing frames are those that the header promises beyond the last packet. The hash covers all packets."""
    with _open_container(path) as container:
        cover = av.stream.Disposition.attached_pic
        streams = [s for s in container.streams.video if not s.disposition & cover]
        if not streams:
            raise UnsupportedPlateError(f"{path.name}: no picture in this movie; wanted a video stream")
        stream = next((s for s in streams if s.disposition & av.stream.Disposition.default), streams[0])
        if stream.codec_context is None:
            raise UnsupportedPlateError(f"{path.name}: its codec is not supported; export it as ProRes or H.264")
        content = hashlib.sha1(stream.codec_context.extradata or b"", usedforsecurity=False)
        packets = []
        for packet in _packets(container, stream):
            content.update(packet)
            packets.append((packet.pts, packet.duration or 0, packet.is_discard))
        times = {time for time, _, is_hidden in packets if time is not None and not is_hidden}
        if not times:
            raise DamagedFrameError(f"{path.name}: no frame in this movie can be read; export it again")
        n_lost = int(stream.frames) - len(packets)
        if not stream.frames:
            end = max(time + length for time, length, _ in packets if time is not None)
            n_lost = _frames_after(container, stream, end * stream.time_base)
        return sorted(times), int(stream.index), max(n_lost, 0), content.hexdigest()


def _frames_after(container: Any, stream: Any, end_s: Fraction) -> int:
    """How many frames are missing at the end, by the duration in the header, where the header has no frame count."""
    promised_s = _seconds(stream.metadata.get("DURATION", ""))
    if promised_s is None and container.duration is not None and len(container.streams) == 1:
        promised_s = container.duration / av.time_base
    return 0 if promised_s is None else int((promised_s - end_s) * (stream.average_rate or 0) + 0.25)


def _seconds(text: str) -> float | None:
    """Seconds from text such as `00:00:02.500000000`, the form of Matroska's tags."""
    try:
        hours, minutes, seconds = text.split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    except ValueError:
        return None


def _packets(container: Any, stream: Any) -> Iterator[Any]:
    try:
        for packet in container.demux(stream):
            if packet.size and not packet.is_corrupt:
                yield packet
    except av.error.InvalidDataError:
        return
