"""A plate that is read lazily: opening it lists its files, and each frame is read when it is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError
from rotopaint_ai.plates import colour, exr, film, oiio, stills
from rotopaint_ai.plates.kinds import PlateKind, kind_of
from rotopaint_ai.plates.picture import Header, Picture, reading, stamp
from rotopaint_ai.plates.plate_window import Area, PixelRect, WindowedCodes, own_copy
from rotopaint_ai.plates.sequence import Listing, find

if TYPE_CHECKING:
    from rotopaint_ai.plates.movie import Movie  # PyAV is imported for movies only: it takes 18 MB and slows the start

Array = NDArray[Any]

_DEFAULT_FPS = 24.0


@dataclass(frozen=True, slots=True)
class FrameReader:
    """The functions that read one kind of file: its header, its pixels, and (`within`) only some of its pixels."""

    header: Callable[[Path], Header]
    read: Callable[[Path], Picture]
    within: Callable[[Path, Area, Callable[[], Array], bool], Picture] | None = None


_STILL = FrameReader(stills.header, stills.read)
READERS: dict[PlateKind, FrameReader] = {
    PlateKind.EXR: FrameReader(exr.header, exr.read, exr.read_within),
    PlateKind.DPX: FrameReader(film.header, film.read),
    PlateKind.CINEON: FrameReader(film.header, film.read),
    PlateKind.TIFF: _STILL,
    PlateKind.PNG: _STILL,
    PlateKind.JPEG: _STILL,
    PlateKind.OTHER: _STILL,
}


@dataclass(frozen=True)
class NativeSource:
    """The source of a frame, used only for writing it back."""

    kind: PlateKind
    picture: Picture
    colourspace: str
    stamp: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame of a plate.

    `codes`: the file's own numbers (H, W, C) of the data window, C is 1 or 3; `rgb` is computed from them on first use.
    `origin`: top-left pixel of the data window in plate space (x, y), may be negative. `width`, `height`: the display
    window. `native`: needed by `write_clean`, None after `keep_native=False`. `fingerprint`: hash of the content.
    """

    number: int
    codes: Array
    origin: tuple[int, int]
    width: int
    height: int
    colourspace: str
    maximum: int | None
    native: NativeSource | None
    path: Path | None
    fingerprint: str

    @cached_property
    def rgb(self) -> Array:
        """Scene-linear float32 (H, W, 3) of the data window. Do not write to it: later callers get the same array."""
        return self._linear_codes(np.asarray(self.codes))  # all pixels of a window

    def region(self, x: int, y: int, width: int, height: int) -> tuple[Array, tuple[int, int]]:
        """Scene-linear pixels of a plate-space rectangle, cut to the data window, and their top-left pixel (x, y).

        Only the pixels of the rectangle are converted. The array is empty where the rectangle is outside the data
        window.
        """
        rows, columns = self.codes.shape[:2]
        x0, y0 = max(x - self.origin[0], 0), max(y - self.origin[1], 0)
        x1, y1 = min(x + width - self.origin[0], columns), min(y + height - self.origin[1], rows)
        x1, y1 = max(x1, x0), max(y1, y0)
        cut = self.rgb[y0:y1, x0:x1] if "rgb" in self.__dict__ else self._linear_codes(self.codes[y0:y1, x0:x1])
        return cut, (x0 + self.origin[0], y0 + self.origin[1])

    def has(self, area: Area | None) -> bool:
        """Whether all pixels of an area are in memory; None means the whole picture."""
        if not isinstance(self.codes, WindowedCodes):
            return True
        whole = PixelRect(0, self.codes.shape[0], 0, self.codes.shape[1])
        return self.codes.holds(whole if area is None else area.cut(self.origin, self.codes.shape))

    def narrowed(self, area: Area) -> Frame:
        """The same frame with only the pixels of an area in memory; access to other pixels reads the file again.

        Returns the frame unchanged where that would save little, or where writing its file needs all pixels.
        Access to other pixels raises PlateError where the file has changed meanwhile.
        """
        lines = None if self.native is None else _lines_written(self.native)
        if self.native is None or self.path is None or lines is None:
            return self
        shape = self.codes.shape
        cut = area.cut(self.origin, shape, lines=max(lines, 1), whole_rows=lines > 0)
        if cut.n_pixels == shape[0] * shape[1]:
            return self
        codes: Any = self.codes
        if isinstance(codes, WindowedCodes):
            codes = codes.narrowed(cut)
        else:
            again = partial(_read_again, self.path, self.native.kind, self.native.stamp)  # holds no pixels
            codes = WindowedCodes(shape, cut, own_copy(cut.of(codes)), again)
        return replace(
            self, codes=codes, native=replace(self.native, picture=replace(self.native.picture, codes=codes))
        )

    def _linear_codes(self, codes: Array) -> Array:
        linear = colour.linearise(codes, self.colourspace, maximum=self.maximum)
        return linear if linear.shape[2] == 3 else np.repeat(linear, 3, axis=2)


def _lines_written(native: NativeSource) -> int | None:
    """How many rows are encoded together from a frame's codes where one of them changes.

    It is 0 where the rest comes from the file itself, and None where all rows or whole tiles are encoded.
    """
    if native.kind in (PlateKind.DPX, PlateKind.CINEON):
        return 0
    return exr.lines_written(native.picture) if native.kind is PlateKind.EXR else None


def _read_again(path: Path, kind: PlateKind, before: tuple[int, int]) -> Array:
    if stamp(path) != before:
        raise PlateError(f"{path.name}: was overwritten during this run; run this frame again")
    return READERS[kind].read(path).codes


class Plate:
    """A sequence, still or movie. Made by `open_plate`; `read` may be called from several threads."""

    def __init__(self, listing: Listing, kind: PlateKind, colourspace: str | None, fps: float | None) -> None:
        self._listing, self._plate_kind = listing, kind
        self._movie: Movie | None = None
        self._stamp = (0, 0)
        if kind is PlateKind.MOVIE:
            from rotopaint_ai.plates.movie import Movie

            path = next(iter(listing.paths.values()))
            self._stamp = stamp(path)
            self._movie = Movie(path)
            header = self._movie.header
        else:
            header = self._first_header()
        self.name: str = listing.name
        self.suffix: str = listing.suffix
        self.padding: int = listing.padding
        self.is_movie: bool = self._movie is not None
        self.is_lossy: bool = header.is_lossy
        self.width, self.height = header.width, header.height
        self.pixel_aspect: float = header.pixel_aspect
        self.fps: float = fps or header.fps or _DEFAULT_FPS
        self.colourspace: str = colour.resolve(colourspace) if colourspace else header.colourspace
        self.is_float: bool = header.maximum is None
        self.bit_depth: str = "float" if header.maximum is None else f"{header.maximum.bit_length()} bit"

    @property
    def kind(self) -> PlateKind:
        """The kind of files that this plate has."""
        return self._plate_kind

    @property
    def frames(self) -> tuple[int, ...]:
        """Frame numbers on disk, ascending; a movie's run from 1."""
        return self._listing.frames if self._movie is None else tuple(range(1, self._movie.n_frames + 1))

    @property
    def missing(self) -> tuple[int, ...]:
        """Missing frames between the first and the last; in a movie, frames at the end that its header promises."""
        if self._movie is None:
            return self._listing.missing
        n_frames = self._movie.n_frames
        return tuple(range(n_frames + 1, n_frames + self._movie.n_lost + 1))

    @property
    def named_frame(self) -> int | None:
        """The frame whose file was given as the source; None where a sequence or a movie was given."""
        return self._listing.named_frame

    def path_of(self, frame: int) -> Path:
        """The file that holds `frame`. Raises MissingFrameError."""
        return self._listing.path_of(1 if self._movie is not None else frame)

    def read(
        self, frame: int, *, keep_native: bool = True, near: Area | None = None, fingerprint: str | None = None
    ) -> Frame:
        """Read one frame; a movie is fastest in order.

        `keep_native=False` keeps only the pixels, and `write_clean` then refuses the frame. `near`: the area that will
        be used; access to other pixels may read the file again, see `Frame.narrowed`. `fingerprint`: the known
        fingerprint of an unchanged file; without it the fingerprint is computed. Raises: MissingFrameError,
        DamagedFrameError, UnsupportedPlateError, each naming the file; PlateError for a frame of another size, and
        where another movie has replaced this one.
        """
        if self._movie is not None:
            if (now := stamp(self._movie.path)) != self._stamp:  # the decoder may still have the replaced file open
                if not self._movie.is_unchanged():
                    name = self._movie.path.name
                    raise PlateError(f"{name}: was overwritten during this run; open or run it again")
                self._stamp = now
            picture = self._movie.read(frame)
            made = fingerprint or _sha1(picture.codes.data.cast("B")).hexdigest()
            return self._frame_of_picture(frame, picture, self._movie.path, self._stamp, keep_native, made)
        path = self._listing.path_of(frame)
        kind = kind_of(path)
        if kind is not self._plate_kind:
            raise PlateError(f"{path.name}: is {kind} where the plate is {self._plate_kind}; render it like the others")
        before, reader = stamp(path), READERS[kind]
        if near is None or reader.within is None:
            picture = reader.read(path)
        else:
            again = partial(_read_again, path, kind, before)
            picture = reader.within(path, near, again, bool(fingerprint))
        return self._frame_of_picture(frame, picture, path, before, keep_native, fingerprint or plate_fingerprint(path))

    def matte_channels(self, frame: int) -> Array | None:
        """The brightest of a frame's alpha and channels called mask or matte (R, K), 1.0 as full, in its data window.

        None for movies, and where the frame has no such channel. Raises: DamagedFrameError.
        """
        if self._movie is not None:
            return None
        path = self._listing.path_of(frame)
        part = exr.header(path).detail.choice.part if kind_of(path) is PlateKind.EXR else 0
        return oiio.read_matte_channels(path, part)

    def matte_names(self, frame: int) -> tuple[str, ...]:
        """The names of a frame's layers that have an alpha; none for movies. Raises: DamagedFrameError."""
        return () if self._movie is not None else oiio.read_matte_names(self._listing.path_of(frame))

    def close(self) -> None:
        """Close the files; a later read opens them again."""
        if self._movie is not None:
            self._movie.close()

    def __enter__(self) -> Plate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _frame_of_picture(
        self, number: int, picture: Picture, path: Path, before: tuple[int, int], keep_native: bool, fingerprint: str
    ) -> Frame:
        header = picture.header
        if (header.width, header.height) != (self.width, self.height):
            raise PlateError(
                f"{path.name}: {header.width} x {header.height} pixels where the plate is {self.width} x {self.height};"
                " render it in the plate's format"
            )
        if isinstance(picture.codes, np.ndarray):
            picture.codes.flags.writeable = False
        return Frame(
            number=number,
            codes=picture.codes,
            origin=(header.x, header.y),
            width=header.width,
            height=header.height,
            colourspace=self.colourspace,
            maximum=header.maximum,
            native=NativeSource(self._plate_kind, picture, self.colourspace, before) if keep_native else None,
            path=None if self.is_movie else path,
            fingerprint=fingerprint,
        )

    def _first_header(self) -> Header:
        first_error: PlateError | None = None
        for frame in self._listing.samples:
            path = self._listing.paths[frame]
            try:
                if kind_of(path) is self._plate_kind:
                    return READERS[self._plate_kind].header(path)
            except PlateError as error:
                first_error = first_error or error
        raise first_error or DamagedFrameError(f"{self._listing.name}: none of its first frames can be read")


def plate_fingerprint(path: Path) -> str:
    """Hash of a file's content; a resumed run uses it to tell whether a frame has changed."""
    with reading(path) as stream:
        return hashlib.file_digest(stream, _sha1).hexdigest()


def _sha1(data: Any = b"") -> hashlib._Hash:
    return hashlib.sha1(data, usedforsecurity=False)


def open_plate(source: str | Path, *, colourspace: str | None = None, fps: float | None = None) -> Plate:
    """Open a plate: a pattern (`plate.####.exr`, `plate.%04d.exr`), a folder, one frame, a still, a movie.

    Lists the file names and reads one header. Pixels are not read, except the first frame of a movie. `colourspace`
    replaces the colour space that the file names, see `colour.resolve`. Raises: UsageError where no plate or several
    plates match `source`; MissingFrameError, DamagedFrameError, UnsupportedPlateError where no frame can be used.
    """
    if colourspace is not None:
        colourspace = colour.resolve(colourspace)
    listing = find(source)
    return Plate(listing, _plate_kind(listing), colourspace, fps)


def _plate_kind(listing: Listing) -> PlateKind:
    """The kind of the first frame whose kind can be recognised."""
    first_error: PlateError | None = None
    for frame in listing.samples:
        try:
            return kind_of(listing.paths[frame])
        except PlateError as error:
            first_error = first_error or error
    raise first_error or MissingFrameError(f"{listing.name}: has no frames; check the path")
