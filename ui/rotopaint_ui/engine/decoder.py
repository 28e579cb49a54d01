"""The process that turns frames of plates into pictures for the screen: requests in, pictures out.

Runs as `python -m rotopaint_ui.engine.decoder` beside the panel, so that the host loads no image library and survives
a bad file. Standard input takes one JSON object per line, standard output gives for each one a line of JSON, followed
by `bytes` bytes of picture (R, G, B, 8 bit, rows from top to bottom, the plate's display window). Who asks for a
`window` gets its name instead, and B, G, R and a fourth byte through that (see `shared_memory`).

    {"ask": "open", "plate": "plate", "source": "...", "colourspace": null}
    {"ask": "frame", "plate": "plate", "frame": 1001, "look": [exposure, gamma, view, channel, proxy], "window": true}
    {"ask": "thumb", "plate": "plate", "frame": 1001, "look": [...], "height": 48}
    {"ask": "pixel", "plate": "plate", "frame": 1001, "x": 640, "y": 360}   the plate's own values, whatever the look
    {"ask": "views"}
    {"ask": "spaces"}
    {"ask": "packs", "folders": [...]}   those installed, and those of the folders that hold one

Looks never touch the plate: they act between scene-linear pixels and the display.
"""

from __future__ import annotations

import json
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, BinaryIO

import cv2
import numpy as np
import OpenImageIO as oiio
from numpy.typing import NDArray

from rotopaint_ai.errors import RotopaintError, UsageError
from rotopaint_ai.inference.pack import CARD, installed_packs
from rotopaint_ai.plates import colour, open_plate
from rotopaint_ai.plates.plate import Frame, Plate
from rotopaint_ui.engine.shared_memory import SharedMemoryWriter
from rotopaint_ui.engine.studio_views import studio_views, to_studio_view
from rotopaint_ui.settings.preferences import STUDIO

Array = NDArray[Any]
DecoderReply = tuple[dict[str, Any], bytes]
LookKey = tuple[float, float, str]
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)  # ITU-R BT.709

KEPT_BYTES = 256 << 20  # frames kept as the file's own codes, so that a new look needs no reading


def _packs_answer(request: Mapping[str, Any]) -> DecoderReply:
    folders = [folder for folder in request.get("folders", ()) if os.path.isfile(os.path.join(folder, CARD))]
    return {"packs": [path.name for path in installed_packs()], "folders": folders}, b""


class Decoder:
    """The open plates by name, and the frames read last."""

    def __init__(self) -> None:
        self._plates: dict[str, Plate] = {}
        self._frames: OrderedDict[tuple[str, int], Frame] = OrderedDict()
        self._outlet = SharedMemoryWriter()
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], DecoderReply]] = {
            "open": self._open_listed,
            "frame": self._send_frame,
            "thumb": self._thumb,
            "pixel": self._read_pixel,
            "views": lambda request: ({"views": list(colour.views()), "studio": _studio_answer()}, b""),
            "spaces": lambda request: ({"spaces": list(colour.colourspaces())}, b""),
            "packs": _packs_answer,
        }

    def answer(self, request: Mapping[str, Any]) -> DecoderReply:
        """The reply to one request; errors become replies with a field `error`, one line."""
        try:
            facts, picture = self._answers[request["ask"]](request)
        except RotopaintError as error:
            facts, picture = {"error": str(error)}, b""
        except MemoryError:
            facts, picture = {"error": "out of memory for this frame; close other programs"}, b""
        except Exception as error:  # a door: a surprise in one frame must not end the panel's eyes
            facts, picture = {"error": f"{type(error).__name__}: {error}"}, b""
        echo = {
            name: request[name] for name in ("ask", "plate", "frame", "look", "ticket", "x", "y") if name in request
        }
        return {**echo, **facts, "bytes": len(picture)}, picture

    def _open_listed(self, request: Mapping[str, Any]) -> DecoderReply:
        name = request["plate"]
        plate = open_plate(request["source"], colourspace=request.get("colourspace"))
        if name in self._plates:
            self._plates.pop(name).close()
        for key in [key for key in self._frames if key[0] == name]:
            del self._frames[key]
        self._plates[name] = plate
        return plate_facts(plate), b""

    def _send_frame(self, request: Mapping[str, Any]) -> DecoderReply:
        channel, proxy = _channel_of(request)
        frame = one_channel(self._read_frame_once(request["plate"], request["frame"]), channel)
        picture = develop(frame, (0.0, 1.0, colour.DISPLAY["view"]) if channel == "A" else _view_of(request))
        if proxy > 1:
            small = max(picture.shape[1] // proxy, 1), max(picture.shape[0] // proxy, 1)
            picture = cv2.resize(picture, small, interpolation=cv2.INTER_AREA)
        size = {"width": picture.shape[1], "height": picture.shape[0]}
        room = self._outlet.room(picture.shape[0] * picture.shape[1] * 4) if request.get("window") else None
        if room is None:
            return size, picture.tobytes()
        memory, name = room
        cv2.cvtColor(picture, cv2.COLOR_RGB2BGRA, dst=np.frombuffer(memory, np.uint8).reshape(*picture.shape[:2], 4))
        return {**size, "window": name}, b""

    def close(self) -> None:
        """Close the plates and free memory."""
        for plate in self._plates.values():
            plate.close()
        self._outlet.close()

    def _thumb(self, request: Mapping[str, Any]) -> DecoderReply:
        picture = develop(self._read_frame_once(request["plate"], request["frame"]), _view_of(request))
        plate = self._plates[request["plate"]]
        height = int(request["height"])
        width = max(1, round(height * plate.width * plate.pixel_aspect / plate.height))
        small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
        return {"width": width, "height": height}, small.tobytes()

    def _read_pixel(self, request: Mapping[str, Any]) -> DecoderReply:
        region, _ = self._read_frame_once(request["plate"], request["frame"]).region(request["x"], request["y"], 1, 1)
        values = [float(value) if np.isfinite(value) else str(value) for value in region.reshape(-1)]
        return {"values": values}, b""

    def _read_frame_once(self, name: str, number: int) -> Frame:
        key = (name, number)
        if key not in self._frames:
            if name not in self._plates:
                raise UsageError(f"plate '{name}' is not open")
            self._frames[key] = self._plates[name].read(number, keep_native=False)
        self._frames.move_to_end(key)
        while len(self._frames) > 1 and sum(frame.codes.nbytes for frame in self._frames.values()) > KEPT_BYTES:
            self._frames.popitem(last=False)
        return self._frames[key]


def plate_facts(plate: Plate) -> dict[str, Any]:
    """What the panel needs to know of a plate, as JSON values."""
    return {
        "name": plate.name,
        "width": plate.width,
        "height": plate.height,
        "pixel_aspect": plate.pixel_aspect,
        "fps": plate.fps,
        "frames": list(plate.frames),
        "missing": list(plate.missing),
        "colourspace": plate.colourspace,
        "bit_depth": plate.bit_depth,
        "is_named_by_frame": plate.named_frame is not None,
        "path": str(plate.path_of(plate.frames[0])),
    }


def develop(frame: Frame, look: LookKey) -> Array:
    """A frame as shown on the screen: uint8 (H, W, 3) of the display window; black where there is no data."""
    shown = _screen_codes(frame, look)
    if shown.shape[2] == 1:
        shown = np.repeat(shown, 3, axis=2)
    rows, columns = shown.shape[:2]
    x, y = frame.origin
    if (x, y, columns, rows) == (0, 0, frame.width, frame.height):
        return np.ascontiguousarray(shown)
    picture = np.zeros((frame.height, frame.width, 3), np.uint8)
    x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + columns, frame.width), min(y + rows, frame.height)
    if x0 < x1 and y0 < y1:
        picture[y0:y1, x0:x1] = shown[y0 - y : y1 - y, x0 - x : x1 - x]
    return picture


def one_channel(frame: Frame, channel: str) -> Frame:
    """A frame reduced to one channel: `R`, `G`, `B`, `A` (0 where the file has none) or `luma`; `RGB` keeps all."""
    if channel in ("R", "G", "B"):
        row = min("RGB".index(channel), frame.codes.shape[2] - 1)
        return replace(frame, codes=np.ascontiguousarray(frame.codes[..., row : row + 1]))
    if channel == "luma":
        luma = frame.rgb @ _LUMA if frame.rgb.shape[2] == 3 else frame.rgb[..., 0]
        return replace(frame, codes=luma[..., None], colourspace="linear", maximum=None)
    if channel == "A":
        return replace(frame, codes=_alpha_of(frame)[..., None], colourspace="sRGB", maximum=255)
    return frame


def _alpha_of(frame: Frame) -> Array:
    """The alpha of the data window, uint8 (H, W); exposure and view do not apply to it."""
    rows, columns = frame.codes.shape[:2]
    nothing = np.zeros((rows, columns), np.uint8)
    if frame.path is None:
        return nothing
    source = oiio.ImageBuf(str(frame.path))
    alpha = source.spec().alpha_channel
    if source.has_error or alpha < 0 or (source.spec().width, source.spec().height) != (columns, rows):
        return nothing
    found = source.get_pixels(oiio.FLOAT, oiio.ROI(*_bounds_of(source.spec()), 0, 1, alpha, alpha + 1))
    if found is None:
        return nothing
    return np.asarray(np.rint(np.clip(np.nan_to_num(found[..., 0]), 0, 1) * 255), np.uint8)


def _bounds_of(spec: Any) -> tuple[int, int, int, int]:
    return spec.x, spec.x + spec.width, spec.y, spec.y + spec.height


def _screen_codes(frame: Frame, look: LookKey) -> Array:
    """The data window's screen codes, by a table where colour space and view act per channel, else pixel by pixel."""
    codes = frame.codes
    if look[2] != colour.DISPLAY["view"] or frame.colourspace not in colour.CURVES:
        return _to_screen(frame.rgb, look)
    if codes.dtype.kind == "f":
        half = np.clip(frame.rgb, -65504, 65504).astype(np.float16)
        return colour.look_up(half.view(np.uint16), _half_screen_table(look))
    if codes.dtype.itemsize > 2:
        return _to_screen(frame.rgb, look)
    top = int(np.iinfo(codes.dtype).max) if frame.maximum is None else frame.maximum
    return colour.look_up(codes, _code_table(look, frame.colourspace, top, codes.dtype.str))


def _to_screen(linear: Array, look: LookKey) -> Array:
    exposure, gamma, view = look
    with np.errstate(over="ignore", invalid="ignore"):
        graded = linear * np.float32(2.0**exposure) if exposure else linear
        if view.startswith(STUDIO):
            display = to_studio_view(graded, view, os.environ.get("OCIO"))
        else:
            display = colour.to_display(graded, view=view)
    if gamma != 1.0:
        display = display ** np.float32(1.0 / gamma)
    return np.asarray(np.rint(np.nan_to_num(display) * 255.0), np.uint8)


def _studio_answer() -> dict[str, Any]:
    """The views of `$OCIO`, or a line with the reason why there are none."""
    try:
        return {"views": studio_views(os.environ.get("OCIO"))}
    except RotopaintError as error:
        return {"views": [], "trouble": str(error)}


@lru_cache(maxsize=8)
def _half_screen_table(look: LookKey) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        linear = np.nan_to_num(np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32))
    return _spread_to_codes(linear, look)


@lru_cache(maxsize=8)
def _code_table(look: LookKey, colourspace: str, maximum: int, kind: str) -> Array:
    codes = np.arange(1 << (8 * np.dtype(kind).itemsize)).astype(kind)
    return _spread_to_codes(colour.linearise(codes, colourspace, maximum=maximum), look)


def _spread_to_codes(linear: Array, look: LookKey) -> Array:
    """A table of linear values as a table of 8-bit screen codes."""
    return np.ascontiguousarray(_to_screen(np.repeat(linear[:, None], 3, axis=1), look)[:, 0])


def _view_of(request: Mapping[str, Any]) -> LookKey:
    exposure, gamma, view = request["look"][:3]
    return float(exposure), float(gamma), str(view)


def _channel_of(request: Mapping[str, Any]) -> tuple[str, int]:
    """The requested channel, and the factor by which the picture may be reduced."""
    channel, proxy = (*request["look"], "RGB", 1)[3:5]
    return str(channel), int(proxy)


def serve_frames(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the input ends."""
    decoder = Decoder()
    try:
        for line in requests:
            facts, picture = decoder.answer(json.loads(line))
            replies.write(json.dumps(facts).encode() + b"\n")
            replies.write(picture)
            replies.flush()
    finally:
        decoder.close()


if __name__ == "__main__":
    cv2.setNumThreads(1)
    serve_frames(sys.stdin.buffer, sys.stdout.buffer)
