"""DPX and Cineon plates: codes as they stand in the file, and the same file with only changed codes replaced.

Sources: SMPTE ST 268 (DPX 1.0 and 2.0) and Kodak's Cineon 4.5 image file format. No library is used, because a clean
plate must keep every header field, user data, padding bit and second image element. Writing copies the file and then
sets the bits of the changed pixels.

Components have 8, 10, 12 or 16 bits (integers). 10 and 12 bits are filled by method A (padding in the low bits) or B
(padding in the high bits), or packed without padding. Lines begin on 32-bit words. Some scanners write lines without
that alignment; such files are recognised by their size.
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, UnsupportedPlateError
from rotopaint_ai.plates.picture import Header, Patch, Picture, check_header_size, contents

Array = NDArray[Any]

_COMPONENTS: Final[dict[int, tuple[int, tuple[int, ...]]]] = {
    1: (1, (0,)),  # a single red, green or blue channel, shown as grey
    2: (1, (0,)),
    3: (1, (0,)),
    6: (1, (0,)),  # luma
    50: (3, (0, 1, 2)),  # RGB
    51: (4, (0, 1, 2)),  # RGBA
    52: (4, (3, 2, 1)),  # ABGR
}
_TRANSFER: Final = {
    1: "Cineon",  # printing density
    2: "linear",
    3: "Cineon",  # logarithmic
    4: "Rec.709",  # unspecified video
    5: "Rec.709",  # SMPTE 274M
    6: "Rec.709",  # ITU-R 709
    7: "Rec.709",  # ITU-R 601, 625 and 525 lines: the curve is that of 709
    8: "Rec.709",
}
_HEADER_BYTES = 2048  # of a DPX file; a Cineon header has 1024
_UNDEFINED: Final = 0xFFFFFFFF


Order = Literal["<", ">"]


@dataclass(frozen=True, slots=True)
class FilmLayout:
    """Where the codes are in the file.

    `n_components`: components of a pixel; `places`: the positions of R, G, B among them. `slots`: filled codes per
    32-bit word, 0 where codes are packed without padding. `shift`: the bit position of the lowest code of a word.
    `is_reversed`: the first code occupies the lowest bits of the word.
    """

    offset: int
    order: Order
    bits: int
    n_components: int
    places: tuple[int, ...]
    width: int
    height: int
    padding: int
    slots: int
    shift: int
    is_reversed: bool
    is_tight: bool
    orientation: int

    @property
    def line_codes(self) -> int:
        """Codes of one line."""
        return self.width * self.n_components

    def line_bytes(self, n_codes: int) -> int:
        """Bytes of a line of `n_codes`, padded to a multiple of 32 bits."""
        if self.slots:
            return -(-n_codes // self.slots) * 4
        return -(-n_codes * self.bits // 32) * 4

    @property
    def stride(self) -> int:
        """Bytes from one line to the next."""
        return self.line_bytes(self.line_codes) + self.padding

    @property
    def n_bytes(self) -> int:
        """Bytes that the picture needs."""
        if self.is_tight:
            codes = self.line_codes * self.height
            return -(-codes * self.bits // 8) if not self.slots else -(-codes // self.slots) * 4
        return self.stride * self.height - self.padding


def header(path: Path) -> Header:
    """Geometry and colour of a DPX or Cineon file. Raises DamagedFrameError, UnsupportedPlateError."""
    with contents(path) as data:
        return _header_of_film(data[:_HEADER_BYTES], len(data), path.name)


def _header_of_film(data: bytes, size: int, name: str) -> Header:
    magic = data[:4]
    if magic in (b"SDPX", b"XPDS"):
        return _dpx(data, size, name, ">" if magic == b"SDPX" else "<")
    return _cineon(data, size, name, ">" if magic == b"\x80\x2a\x5f\xd7" else "<")


def _dpx(data: bytes, size: int, name: str, order: Order) -> Header:
    if size < _HEADER_BYTES:
        raise DamagedFrameError(f"{name}: {size} bytes, cut off in its DPX header of {_HEADER_BYTES}; render it again")
    if data[8:9] not in (b"V", b"v"):
        raise DamagedFrameError(f"{name}: DPX version {data[8:16]!a} does not exist; it is damaged, render it again")
    orientation, _, width, height = struct.unpack_from(order + "HHII", data, 768)
    check_header_size(name, width, height)
    descriptor, transfer, _, bits = struct.unpack_from("4B", data, 800)
    packing, encoding, element_at, padding, _ = struct.unpack_from(order + "HHIII", data, 804)
    if descriptor not in _COMPONENTS or encoding not in (0, 0xFFFF) or orientation not in (0, 1, 2, 3, 0xFFFF):
        raise _unsupported(name, f"element type {descriptor}, encoding {encoding}, orientation {orientation}")
    n_components, places = _COMPONENTS[descriptor]
    slots, shift = _word_filling(bits, packing, name)
    offset = element_at if element_at not in (0, _UNDEFINED) else struct.unpack_from(order + "I", data, 4)[0]
    layout = FilmLayout(
        offset=int(offset),
        order=order,
        bits=bits,
        n_components=n_components,
        places=places,
        width=width,
        height=height,
        padding=0 if padding == _UNDEFINED else padding,
        slots=slots,
        shift=shift,
        is_reversed=slots == 3 and n_components == 1,
        is_tight=False,
        orientation=0 if orientation == 0xFFFF else orientation,
    )
    unsaid = "Cineon" if bits == 10 and n_components >= 3 else "sRGB"
    layout = _fitted_layout(layout, size, name)
    return _header_of_layout(layout, _TRANSFER.get(transfer, unsaid), _dpx_aspect(data, order), _dpx_fps(data, order))


def _word_filling(bits: int, packing: int, name: str) -> tuple[int, int]:
    """Filled codes per word, and the bit position of the lowest one; (0, 0) for codes without padding."""
    if bits in (8, 16) or (bits in (10, 12) and packing == 0):
        return 0, 0
    if bits in (10, 12) and packing in (1, 2):
        method_a = packing == 1
        return (3, 2 if method_a else 0) if bits == 10 else (2, 4 if method_a else 0)
    raise _unsupported(name, f"{bits} bits with packing {packing}")


def _unsupported(name: str, what: str) -> UnsupportedPlateError:
    return UnsupportedPlateError(f"{name}: DPX of {what} is not read; wanted RGB(A) or luma of 8, 10, 12 or 16 bits")


def _fitted_layout(layout: FilmLayout, size: int, name: str) -> FilmLayout:
    """The layout that fits the size of the file: lines padded to words, or codes without padding between lines."""
    if layout.offset + layout.n_bytes <= size:
        return layout
    fields = {key: getattr(layout, key) for key in FilmLayout.__dataclass_fields__}
    tight = FilmLayout(**(fields | {"is_tight": True, "padding": 0}))
    if tight.offset + tight.n_bytes <= size <= tight.offset + tight.n_bytes + 3:
        return tight
    lines = max(0, size - layout.offset) // layout.stride
    raise DamagedFrameError(f"{name}: cut off after {lines} of {layout.height} lines; render it again")


def _dpx_aspect(data: bytes, order: str) -> float:
    across, down = struct.unpack_from(order + "II", data, 1628)
    if _UNDEFINED in (across, down) or not across or not down or not 0.01 < across / down < 100:
        return 1.0
    return float(across) / float(down)


def _dpx_fps(data: bytes, order: str) -> float | None:
    for at in (1724, 1940):  # film header, then television header
        rate = struct.unpack_from(order + "f", data, at)[0]
        if 1.0 <= rate <= 1000.0:
            return float(rate)
    return None


def _cineon(data: bytes, size: int, name: str, order: Order) -> Header:
    if size < 1024:
        raise DamagedFrameError(f"{name}: {size} bytes, cut off in its Cineon header of 1024; render it again")
    orientation, n_channels = struct.unpack_from("BB", data, 192)
    bits, _, width, height = struct.unpack_from(order + "BBII", data, 198)
    interleave, packing = struct.unpack_from("BB", data, 680)
    check_header_size(name, width, height)
    if n_channels not in (1, 3) or bits != 10 or interleave != 0 or packing not in (5, 6) or orientation > 3:
        raise UnsupportedPlateError(
            f"{name}: Cineon of {n_channels} channels, {bits} bits, packing {packing} is not read; wanted 10-bit RGB"
        )
    layout = FilmLayout(
        offset=struct.unpack_from(order + "I", data, 4)[0],
        order=order,
        bits=bits,
        n_components=n_channels,
        places=tuple(range(n_channels)),
        width=width,
        height=height,
        padding=_line_padding(data, order),
        slots=3,
        shift=2 if packing == 5 else 0,
        is_reversed=False,
        is_tight=False,
        orientation=orientation,
    )
    return _header_of_layout(_fitted_layout(layout, size, name), "Cineon", 1.0, None)


def _line_padding(data: bytes, order: str) -> int:
    padding = struct.unpack_from(order + "I", data, 684)[0]
    return 0 if padding == _UNDEFINED else int(padding)


def _header_of_layout(layout: FilmLayout, colourspace: str, pixel_aspect: float, fps: float | None) -> Header:
    return Header(
        width=layout.width,
        height=layout.height,
        x=0,
        y=0,
        data_width=layout.width,
        data_height=layout.height,
        pixel_aspect=pixel_aspect,
        fps=fps,
        colourspace=colourspace,
        maximum=(1 << layout.bits) - 1,
        is_lossy=False,
        detail=layout,
    )


def read(path: Path) -> Picture:
    """The colour codes: 8 bit as uint8, more bits as uint16. Raises DamagedFrameError, UnsupportedPlateError."""
    with contents(path) as file:
        data = file[:]
    found = _header_of_film(data[:_HEADER_BYTES], len(data), path.name)
    codes = _turned_codes(memoryview(data), found.detail)
    return Picture(found, codes)


def _turned_codes(data: memoryview, layout: FilmLayout) -> Array:
    lines, n_codes = (1, layout.line_codes * layout.height) if layout.is_tight else (layout.height, layout.line_codes)
    flat = _unpacked_codes(data, layout, lines, n_codes)
    pixels = flat.reshape(layout.height, layout.width, layout.n_components)
    pixels = pixels[:, :, list(layout.places)] if layout.n_components != len(layout.places) else pixels
    turned = pixels[:: -1 if layout.orientation & 2 else 1, :: -1 if layout.orientation & 1 else 1]
    return np.array(turned, order="C", copy=True)


def _unpacked_codes(data: memoryview, layout: FilmLayout, lines: int, n_codes: int) -> Array:
    if layout.bits in (8, 16):
        dtype = np.dtype(np.uint8) if layout.bits == 8 else np.dtype(np.uint16).newbyteorder(layout.order)
        bytes_ = _row_bytes(data, layout, lines, n_codes * dtype.itemsize)
        return bytes_[:, : n_codes * dtype.itemsize].view(dtype).astype(dtype.newbyteorder("="))
    words = _row_bytes(data, layout, lines, layout.line_bytes(n_codes)).view(
        np.dtype(np.uint32).newbyteorder(layout.order)
    )
    period = layout.slots or _period(layout.bits)
    words_of_period = 1 if layout.slots else period * layout.bits // 32
    groups = -(-words.shape[1] // words_of_period)
    full = np.zeros((lines, groups * words_of_period), np.uint32)
    full[:, : words.shape[1]] = words
    grouped = full.reshape(lines, groups, words_of_period)
    codes = np.empty((lines, groups, period), np.uint16)
    for slot in range(period):
        word, shift = divmod(_bit(layout, slot), 32)
        code = grouped[:, :, word] >> np.uint32(shift)
        if shift + layout.bits > 32:
            code |= grouped[:, :, word + 1] << np.uint32(32 - shift)
        np.bitwise_and(code, (1 << layout.bits) - 1, out=codes[:, :, slot], casting="unsafe")
    return codes.reshape(lines, groups * period)[:, :n_codes]


def _row_bytes(data: memoryview, layout: FilmLayout, lines: int, row_bytes: int) -> Array:
    """The picture's bytes as (lines, row_bytes), read-only; the last line may lack its padding."""
    stride = row_bytes if lines == 1 else layout.stride
    end = layout.offset + stride * (lines - 1) + row_bytes
    if end <= len(data):
        whole = np.frombuffer(data[layout.offset : end], np.uint8)
        return np.lib.stride_tricks.as_strided(whole, (lines, row_bytes), (stride, 1), writeable=False)
    missing = np.zeros(end - len(data), np.uint8)
    return np.concatenate([np.frombuffer(data[layout.offset :], np.uint8), missing]).reshape(lines, row_bytes)


def _period(bits: int) -> int:
    """The number of packed codes after which their alignment to words repeats.

    16 codes of 10 bits fill 5 words; 8 codes of 12 bits fill 3.
    """
    return int(np.lcm(bits, 32)) // bits


def _bit(layout: FilmLayout, slot: int) -> int:
    """The position of a code's lowest bit in its word (filled) or in its period of words (packed)."""
    if not layout.slots:
        return slot * layout.bits
    place = slot if layout.is_reversed or layout.slots == 2 else layout.slots - 1 - slot
    if layout.slots == 2:
        return (16 * place if layout.order == "<" else 16 * (1 - place)) + layout.shift
    return place * layout.bits + layout.shift


def write(target: Path, source: Path, layout: FilmLayout, patch: Patch) -> None:
    """Copy `source` to `target` and set the codes of `patch` in it; every other bit of the file stays."""
    shutil.copyfile(source, target)
    with target.open("r+b") as stream:
        stream.seek(layout.offset)
        codes = stream.read(layout.n_bytes)
        body = bytearray(codes + bytes(-len(codes) % 4 + 4))
        _set_codes(body, layout, patch)
        stream.seek(layout.offset)
        stream.write(body[: len(codes)])


def _set_codes(body: bytearray, layout: FilmLayout, patch: Patch) -> None:
    rows = layout.height - 1 - patch.rows if layout.orientation & 2 else patch.rows
    columns = layout.width - 1 - patch.columns if layout.orientation & 1 else patch.columns
    if layout.is_tight:
        columns, rows = rows * layout.width + columns, np.zeros_like(rows)
    places = columns[:, None] * layout.n_components + np.array(layout.places)
    lines_at = np.broadcast_to((rows * layout.stride)[:, None], places.shape)
    if layout.bits in (8, 16):
        _set_bytes(np.frombuffer(body, np.uint8), layout, lines_at, places, patch.codes)
        return
    words = np.frombuffer(body, np.dtype(np.uint32).newbyteorder(layout.order))
    native = words.astype(np.uint32)
    _set_words(native, layout, lines_at.ravel() // 4, places.ravel(), patch.codes.ravel())
    words[:] = native


def _set_bytes(body: Array, layout: FilmLayout, lines_at: Array, places: Array, codes: Array) -> None:
    width = layout.bits // 8
    for byte in range(width):
        shift = 8 * (byte if layout.order == "<" else width - 1 - byte)
        body[lines_at + places * width + byte] = codes >> shift & 0xFF


def _set_words(words: Array, layout: FilmLayout, lines_at: Array, places: Array, codes: Array) -> None:
    period = layout.slots or _period(layout.bits)
    words_of_period = 1 if layout.slots else period * layout.bits // 32
    bits = np.array([_bit(layout, slot) for slot in range(period)])[places % period]
    first = lines_at + places // period * words_of_period + bits // 32
    shift = (bits % 32).astype(np.uint64)
    mask, value = np.uint64((1 << layout.bits) - 1) << shift, codes.astype(np.uint64) << shift
    for step in (0, 1):  # a packed code may reach into the next word
        part = (mask >> np.uint64(32 * step)).astype(np.uint32)
        touched = part != 0
        np.bitwise_and.at(words, first[touched] + step, ~part[touched])
        np.bitwise_or.at(words, first[touched] + step, (value >> np.uint64(32 * step)).astype(np.uint32)[touched])
