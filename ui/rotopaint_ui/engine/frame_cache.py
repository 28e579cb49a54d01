"""The pictures of the open plates: requests them from the decoder, most urgent first, and caches them within a
budget."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QImage

from rotopaint_ui.engine.engine_process import EngineProcess
from rotopaint_ui.engine.shared_memory import SharedMemoryReader
from rotopaint_ui.host import Engine

PLATE, CLEAN = "plate", "clean"
CHANNELS = ("RGB", "R", "G", "B", "A", "luma")
BUDGET_BYTES = 512 << 20
N_THUMBS = 600
IN_FLIGHT = 1  # requests the decoder holds at once: whatever the artist wants next is served next
MAX_RESTARTS = 3
THUMB_HEIGHT = 44


@dataclass(frozen=True, slots=True)
class DisplayLook:
    """How scene-linear pixels are brought to the screen: exposure in stops, gamma of the viewer, OCIO view.

    `channel`: one of `CHANNELS`. `proxy`: pictures are this many times smaller than the plate.
    """

    exposure: float = 0.0
    gamma: float = 1.0
    view: str = "Un-tone-mapped"
    channel: str = CHANNELS[0]
    proxy: int = 1

    def json(self) -> list[float | str]:
        """The look in the form of the decoder's requests."""
        return [self.exposure, self.gamma, self.view, self.channel, self.proxy]


@dataclass(frozen=True, slots=True)
class Wish:
    """A requested picture: a thumbnail, or a whole frame."""

    kind: str
    plate: str
    frame: int


class FrameCache(QObject):
    """Pictures by plate and frame. `image` and `thumb` return at once what is cached, and request what is missing."""

    opened = Signal(str, dict)  # plate, its facts
    views = Signal(list)  # names of the display's views
    spaces = Signal(list)  # names of the colour spaces that a plate may be read in
    packs = Signal(list, list)  # names of the model packs that are installed, and folders of others
    image_ready = Signal(str, int)  # plate, frame
    thumb_ready = Signal(int)
    pixel_ready = Signal(str, int, int, int, tuple)  # plate, frame, column, row, scene-linear values
    failed = Signal(str)  # one line

    def __init__(self, parent: QObject | None = None, *, budget_bytes: int = BUDGET_BYTES) -> None:
        super().__init__(parent)
        self._look = DisplayLook()
        self.broken: dict[tuple[str, int], str] = {}
        self._deadly: set[tuple[str, int]] = set()  # frames that ended a decoder
        self._budget = budget_bytes
        self._engine: Engine | None = None
        self.process = EngineProcess(self, payload_field="bytes")
        self.process.received.connect(self._take_reply)
        self.process.ended.connect(self._restart_decoder)
        self.process.unstartable.connect(self._report_failure)
        self._images: OrderedDict[tuple[str, int], tuple[DisplayLook, QImage]] = OrderedDict()
        self._replaced: dict[tuple[str, int], QImage] = {}
        self._thumbs: OrderedDict[int, QImage] = OrderedDict()
        self._wishes: list[Wish] = []
        self._sent: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._pixel: dict[str, Any] | None = None
        self._opening: dict[str, dict[str, Any]] = {}  # requested, not yet answered
        self._sources: dict[str, dict[str, Any]] = {}  # open
        self._memory = SharedMemoryReader()
        self._n_opens = 0
        self._restarts = 0

    @property
    def look(self) -> DisplayLook:
        """Exposure, gamma and view of the requested pictures."""
        return self._look

    @look.setter
    def look(self, look: DisplayLook) -> None:
        if look.view != self._look.view:  # what one view cannot show another may; a frame that kills is not asked again
            self.broken = {key: text for key, text in self.broken.items() if key in self._deadly}
        self._look = look

    def set_budget(self, budget_bytes: int) -> None:
        """Limit the memory of whole frames to this many bytes; at least one frame is always kept."""
        self._budget = budget_bytes
        self._trim()

    def use(self, engine: Engine) -> None:
        """Set the engine in which the decoder runs."""
        self._engine = engine

    def open(self, plate: str, source: str, colourspace: str | None = None) -> None:
        """Open a plate under a name; `opened` or `failed` follows. Until then the previous plate of that name stays."""
        self._n_opens += 1
        request = {"ask": "open", "plate": plate, "source": source, "colourspace": colourspace, "ticket": self._n_opens}
        self._opening[plate] = request
        self._calls.append(request)
        self._send_requests()

    def _take_views(self, reply: Mapping[str, Any]) -> None:
        """Take the display's views and those of the studio's config, or the reason why the latter are missing."""
        studio = reply.get("studio", {})
        self.views.emit([*reply.get("views", []), *studio.get("views", [])])
        if studio.get("trouble"):
            self.failed.emit(studio["trouble"])

    def ask_choices(self, folders: Sequence[str] = ()) -> None:
        """Request the display's views and the packs, installed or in these folders; `views` and `packs` follow."""
        self._calls += [{"ask": "views"}, {"ask": "packs", "folders": list(folders)}]
        self._send_requests()

    def ask_spaces(self) -> None:
        """Request the colour spaces that a plate can be read in; `spaces` follows."""
        self._calls.append({"ask": "spaces"})
        self._send_requests()

    def forget(self, plate: str) -> None:
        """Drop every picture of a plate."""
        for key in [key for key in self._images if key[0] == plate]:
            del self._images[key]
        self.broken = {key: text for key, text in self.broken.items() if key[0] != plate}
        self._deadly = {key for key in self._deadly if key[0] != plate}
        self._wishes = [wish for wish in self._wishes if wish.plate != plate]
        self._sources.pop(plate, None)
        if plate == PLATE:
            self._thumbs.clear()

    def source(self, plate: str) -> str:
        """The path from which a plate was opened; empty where none is open."""
        return str(self._sources[plate]["source"]) if plate in self._sources else ""

    def replace_picture(self, plate: str, picture: tuple[int, QImage] | None) -> None:
        """Show another picture, a preview, in place of a frame of a plate; None ends it."""
        self._replaced = {} if picture is None else {(plate, picture[0]): picture[1]}
        if picture is not None:
            self.image_ready.emit(plate, picture[0])

    def is_replaced(self, plate: str, frame: int) -> bool:
        """Whether a preview is shown in place of a frame."""
        return (plate, frame) in self._replaced

    def look_of(self, plate: str, frame: int) -> DisplayLook | None:
        """The look of a frame's cached picture; None where none is cached."""
        found = self._images.get((plate, frame))
        return None if found is None else found[0]

    def image(self, plate: str, frame: int) -> QImage | None:
        """The newest cached picture of a frame, perhaps with an earlier look; None where none is cached."""
        shown = self._replaced.get((plate, frame))
        return self.own_image(plate, frame) if shown is None else shown

    def own_image(self, plate: str, frame: int) -> QImage | None:
        """The newest picture of the frame's own file, even while a preview is shown."""
        found = self._images.get((plate, frame))
        if found is not None:
            self._images.move_to_end((plate, frame))
            return found[1]
        return None

    def has(self, plate: str, frame: int) -> bool:
        """Whether a frame's picture is in the cache; this does not count as a use of it."""
        return (plate, frame) in self._images

    def want(self, frames: Iterable[tuple[str, int]]) -> None:
        """Replace the requests for whole frames; the most urgent comes first."""
        wishes = [Wish("frame", plate, frame) for plate, frame in frames if self._lacks(plate, frame)]
        self._wishes = wishes + [wish for wish in self._wishes if wish.kind == "thumb"]
        self._send_requests()

    def ask_pixel(self, plate: str, frame: int, x: int, y: int) -> None:
        """Request the plate's values at a pixel; `pixel_ready` is sent for the pixel of the last request."""
        if plate in self._sources and (plate, frame) not in self.broken:
            self._pixel = {
                "ask": "pixel",
                "plate": plate,
                "frame": frame,
                "x": x,
                "y": y,
                "ticket": self._ticket(plate),
            }
            self._send_requests()

    def thumb(self, frame: int) -> QImage | None:
        """The thumbnail of a plate's frame; None when there is none yet."""
        return self._thumbs.get(frame)

    def want_thumbs(self, frames: Iterable[int]) -> None:
        """Replace the requests for thumbnails."""
        wishes = [Wish("thumb", PLATE, frame) for frame in frames if frame not in self._thumbs]
        wishes = [wish for wish in wishes if (PLATE, wish.frame) not in self.broken]
        self._wishes = [wish for wish in self._wishes if wish.kind == "frame"] + wishes
        self._send_requests()

    def shut_down(self) -> None:
        """End the decoder and wait for it."""
        self._engine = None
        self.process.shut_down()
        self._memory.close()

    @property
    def cached_bytes(self) -> int:
        """The memory of the cached frames."""
        return sum(image.sizeInBytes() for _, image in self._images.values())

    def _lacks(self, plate: str, frame: int) -> bool:
        if plate not in self._sources or (plate, frame) in self.broken:
            return False
        found = self._images.get((plate, frame))
        return found is None or found[0] != self.look

    def _send_requests(self) -> None:
        """Send as many requests as the decoder has room for."""
        while len(self._sent) < IN_FLIGHT:
            request = self._next_request()
            if request is None or not self._running():
                return
            self._sent.append(request)
            self.process.send(json.dumps(request).encode() + b"\n")

    def _next_request(self) -> dict[str, Any] | None:
        request: dict[str, Any] | None
        if self._calls:
            return self._calls.pop(0)
        if self._pixel is not None:
            request, self._pixel = self._pixel, None
            return request
        while self._wishes:
            wish = self._wishes.pop(0)
            request = {"ask": wish.kind, "plate": wish.plate, "frame": wish.frame}
            look = replace(self.look, channel=CHANNELS[0], proxy=1) if wish.kind == "thumb" else self.look
            request |= {"look": look.json(), "ticket": self._ticket(wish.plate)}
            request |= {"height": THUMB_HEIGHT} if wish.kind == "thumb" else {"window": True}
            if request not in self._sent:
                return request
        return None

    def _running(self) -> bool:
        if not self.process.is_running and self._engine is not None:
            self.process.start(self._engine, ["-m", "rotopaint_ui.engine.decoder"])
        return self.process.is_running

    def _take_reply(self, header: Mapping[str, Any], payload: bytes) -> None:
        if self._sent:
            self._sent.pop(0)
        self._restarts = 0
        self._dispatch_reply(header, payload)
        self._send_requests()

    def _ticket(self, plate: str) -> int:
        return int(self._sources[plate]["ticket"]) if plate in self._sources else 0

    def _dispatch_reply(self, reply: Mapping[str, Any], payload: bytes) -> None:
        ask, plate = reply["ask"], reply.get("plate", "")
        if ask == "open":
            self._take_opened(plate, reply)
        elif ask == "views":
            self._take_views(reply)
        elif ask == "spaces":
            self.spaces.emit(reply.get("spaces", []))
        elif ask == "packs":
            self.packs.emit(reply.get("packs", []), reply.get("folders", []))
        elif reply.get("ticket") != self._ticket(plate):
            return  # the plate has been replaced since
        elif ask == "pixel":
            if "values" in reply:
                self.pixel_ready.emit(plate, reply["frame"], reply["x"], reply["y"], tuple(reply["values"]))
        elif "error" in reply:
            self._take_error(reply)
        else:
            self._keep_image(reply, payload)

    def _take_error(self, reply: Mapping[str, Any]) -> None:
        if DisplayLook(*reply["look"]).view != self.look.view:
            return  # another view was chosen since, which sends a new request
        self.broken[reply["plate"], reply["frame"]] = reply["error"]
        self.image_ready.emit(reply["plate"], reply["frame"])
        if reply["plate"] == PLATE and reply["ask"] == "frame":
            self.failed.emit(reply["error"])

    def _take_opened(self, plate: str, reply: Mapping[str, Any]) -> None:
        request = self._opening.get(plate)
        if request is None or request["ticket"] != reply["ticket"]:
            return  # a newer request was sent since, or the decoder was restarted
        del self._opening[plate]
        if "error" in reply:
            if plate == PLATE:
                self.failed.emit(reply["error"])
            return
        self.forget(plate)
        self._sources[plate] = request
        self.opened.emit(plate, dict(reply))

    def _keep_image(self, reply: Mapping[str, Any], payload: bytes) -> None:
        frame = reply["frame"]
        try:
            image = self._image_of(reply, payload)
        except OSError:  # the decoder that showed it is gone: the next one is asked again
            self._wishes.insert(0, Wish(reply["ask"], reply["plate"], frame))
            return
        if reply["ask"] == "thumb":
            self._thumbs[frame] = image
            while len(self._thumbs) > N_THUMBS:
                self._thumbs.popitem(last=False)
            self.thumb_ready.emit(frame)
            return
        key = (reply["plate"], frame)
        self._images[key] = (DisplayLook(*reply["look"]), image)
        self._images.move_to_end(key)
        self._trim()
        self.image_ready.emit(*key)

    def _image_of(self, reply: Mapping[str, Any], payload: bytes) -> QImage:
        """The picture of a reply, copied and in the format that Qt paints fastest. Raises OSError."""
        width, height = reply["width"], reply["height"]
        if "window" in reply:
            memory = self._memory.view(reply["window"], 4 * width * height)
            return QImage(memory, width, height, 4 * width, QImage.Format.Format_RGB32).copy()
        image = QImage(payload, width, height, 3 * width, QImage.Format.Format_RGB888)
        return image.convertToFormat(QImage.Format.Format_RGB32)

    def _trim(self) -> None:
        """Drop the least recently used frames until the rest fits."""
        kept = self.cached_bytes
        while len(self._images) > 1 and kept > self._budget:
            _, (_, image) = self._images.popitem(last=False)
            kept -= image.sizeInBytes()

    def _report_failure(self, text: str) -> None:
        self._sent.clear()
        self._engine = None
        self.failed.emit(text)

    def _restart_decoder(self, code: int, has_crashed: bool) -> None:
        """Handle a crash of the decoder: mark the frame that it was reading as broken, and request the others again."""
        culprit = self._sent[0] if self._sent else None
        self._sent.clear()
        self._restarts += 1
        if culprit is not None and "frame" in culprit:
            self.broken[culprit["plate"], culprit["frame"]] = "the decoder crashed on this frame"
            self._deadly.add((culprit["plate"], culprit["frame"]))
        elif culprit is not None and culprit["ask"] == "open":
            self._opening.pop(culprit["plate"], None)
        reason = self.process.last_complaint or f"code {code}"
        if self._restarts > MAX_RESTARTS or (culprit is not None and culprit["ask"] == "open"):
            self.failed.emit(f"The decoder stopped ({reason}); open the plate again")
            return
        where = f" on frame {culprit['frame']}" if culprit is not None and "frame" in culprit else ""
        self.failed.emit(f"The decoder stopped{where} ({reason}) and was started again")
        lost = [request for request in self._opening.values() if request not in self._calls]
        self._calls = [*self._sources.values(), *lost, *self._calls]
        self._send_requests()
