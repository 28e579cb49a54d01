"""The panel's client of the live engine: asks over a pipe, never waits, restarts the engine when it crashes.

One request is in progress at a time. A newer request of a kind replaces an older one that still waits, so that a drag
never lags behind the mouse. Qt and standard library only.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.live import wire
from rotopaint_ai.project import CropBox, Project, SeamSettings, Spread, State
from rotopaint_ai.project.codecs import unpack
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.seams.strokes import to_json as stroke_json
from rotopaint_ai.shapes.roto import Key, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ui.engine.command_lines import paint_fields
from rotopaint_ui.engine.drag_messages import fill_hidden, splines_after_drag
from rotopaint_ui.engine.engine_process import Ending, EngineProcess
from rotopaint_ui.host import Engine
from rotopaint_ui.session.correction_edits import KeysReply, LandmarkDrag, ShapesReply

EngineAnswer = Mapping[str, Any]
OnAnswer = Callable[[EngineAnswer | None], None]

ORDER = ("hello", "pack", "plate", "drag", "seam", "crop", "spread", "teach")  # what is answered first
PATIENCE_MS = {"drag": 10_000, "spread": 120_000, "seam": 60_000, "teach": 300_000}  # teach: without a sign of life
USUAL_PATIENCE_MS = 60_000
MAX_RESTARTS = 3  # without an answer in between


@dataclass(frozen=True, slots=True)
class SeamQuestion:
    """How would the seams of a frame look, painted away with these settings? `look`: exposure, gamma, view."""

    frame: int
    document: RotoDocument
    settings: Mapping[str, SeamSettings]
    look: tuple[float, float, str]
    strokes: Strokes = ()


@dataclass(frozen=True, slots=True)
class SeamPreview:
    """The painted region around a frame's seams: corner and size in plate pixels, and each seam's visibility before and
    after.

    `picture`: RGB, 8 bit, in the viewer's look; `matte`: 8 bit; rows from top to bottom.
    """

    frame: int
    x: int
    y: int
    width: int
    height: int
    picture: bytes
    matte: bytes
    before: float
    after: float
    ms: float


@dataclass(frozen=True, slots=True)
class TaughtKeys:
    """The shot as solved from its corrections: new keys by shape and frame, each shape's unsure frames, and expected
    errors in pixels."""

    keys: Mapping[str, Mapping[int, Key]]
    doubtful: Mapping[str, tuple[int, ...]]
    errors: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class _Question:
    number: int
    facts: EngineAnswer
    take: OnAnswer
    is_again: bool = False


class LiveClient(QObject):
    """Sends requests to the live engine. Each reply comes by a callback in the GUI thread; None means no answer."""

    ready = Signal(str)  # the pack that answers
    lost = Signal(str)  # a line about a failure of the engine
    message_sent = Signal(str)  # one line: why a question has no answer
    progressed = Signal(int, int)  # how far a long answer is: done, total

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.project_path: Callable[[], Path | None] = lambda: None
        self._engine: Engine | None = None
        self._process = EngineProcess(self)
        self._process.received.connect(lambda answer, payload: self._answered(answer))
        self._process.ended.connect(lambda code, has_crashed: self._start_again())
        self._process.unstartable.connect(self._give_up)
        self._waiting: dict[str, _Question] = {}
        self._asked: _Question | None = None
        self._setup: dict[str, EngineAnswer] = {}  # requests that a new engine must get first
        self._n = 0
        self._restarts = 0
        self._folder: str | None = None
        self._copies: set[Path] = set()  # copies of states that are in no project
        self._refusal = ""  # why no more requests are sent
        self._watch = QTimer(self, singleShot=True)
        self._watch.timeout.connect(self._process.kill)

    # --- beginning and ending

    def use(self, engine: Engine) -> None:
        """Set where the engine runs; it starts with the first request."""
        if engine != self._engine:
            self.shut_down()
            self._engine, self._refusal = engine, ""

    def load_pack(self, model: str | None) -> None:
        """Load the pack for answers; None: the default one."""

        def take(answer: EngineAnswer | None) -> None:
            if answer is not None:
                self.ready.emit(str(answer["pack"]))

        self._set_up({"ask": "pack", "model": model}, take)

    def open_plate(self, source: str, colourspace: str | None = None) -> None:
        """Set the plate for previews."""
        self._set_up({"ask": "plate", "source": source, "colourspace": colourspace}, lambda facts: None)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is pending."""
        return self._asked is not None or bool(self._waiting)

    @property
    def pid(self) -> int:
        """The number of the engine's process; 0 where none runs."""
        return self._process.pid

    def shut_down(self, how: Ending = "close") -> None:
        """End the engine; waiting requests get no reply. The next request starts it again."""
        self._asked = None
        self._waiting.clear()
        self._watch.stop()
        self._process.shut_down(how)
        self._clear_blocks()
        for path in list(self._copies):
            self._remove_copy(path)

    # --- questions

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        """The shapes of a frame after landmarks were moved, by name."""
        before, after = fill_hidden(question)
        facts = {"ask": "drag", "names": list(question.document.landmarks.names), "before": before, "after": after}

        def take(answer: EngineAnswer | None) -> None:
            reply(None if answer is None else splines_after_drag(question, answer, wire.take_block(answer["block"])))

        self._queue_question(facts, take)

    def spread(self, way: str, state: State, spread: Spread | None, reply: KeysReply) -> None:
        """New keys by a way of `spreads.SPREADS`: of the spread's range, or of the whole shot where there is none."""
        bounds = None if spread is None else [spread.frame, spread.first, spread.last]

        def take(answer: EngineAnswer | None) -> None:
            reply(None if answer is None else _keys_of_answer(answer, wire.take_block(answer["block"])))

        self._ask_of_state(state, {"ask": "spread", "way": way, "spread": bounds}, take)

    def teach(self, state: State, reply: Callable[[TaughtKeys | None], None]) -> None:
        """Request the whole shot solved from its corrections and pictures; `progressed` tells the progress."""

        def take(answer: EngineAnswer | None) -> None:
            reply(None if answer is None else _taught_of_answer(answer, wire.take_block(answer["block"])))

        self._ask_of_state(state, {"ask": "teach"}, take)

    def seam(self, question: SeamQuestion, reply: Callable[[SeamPreview | None], None]) -> None:
        """Request a frame with its seams painted out with some settings."""
        facts = {
            "ask": "seam",
            "frame": question.frame,
            "shapes": documents.dumps(_seams_about(question)),
            "settings": {name: paint_fields(each) for name, each in question.settings.items()},
            "look": list(question.look),
            "strokes": [stroke_json(stroke) for stroke in question.strokes],
        }
        self._queue_question(facts, lambda answer: reply(None if answer is None else _seam_preview(answer)))

    def propose_crop(self, frame: int, reply: Callable[[CropBox | None, str], None]) -> None:
        """Ask for a box around the face that the pack finds in a frame, with a note on the choice."""

        def take(answer: EngineAnswer | None) -> None:
            if answer is None:
                reply(None, "")
            else:
                reply(CropBox(*map(float, answer["crop"])), str(answer.get("note") or ""))

        self._queue_question({"ask": "crop", "frame": frame}, take)

    # --- the process

    def _ask_of_state(self, state: State, facts: EngineAnswer, take: OnAnswer) -> None:
        """Ask about the shot's state, which the engine reads from the project, or from a copy that is deleted after the
        answer."""
        try:
            path = self._state_on_disk(state)
        except (RotopaintError, OSError) as error:
            self.message_sent.emit(str(error))
            take(None)
            return

        def deliver(answer: EngineAnswer | None) -> None:
            self._remove_copy(path)
            take(answer)

        self._queue_question({**facts, "project": str(path)}, deliver)

    def _set_up(self, facts: EngineAnswer, take: OnAnswer) -> None:
        """Send a request that every new engine needs again."""
        self._setup[facts["ask"]] = facts
        self._queue_question(facts, take)

    def _queue_question(self, facts: EngineAnswer, take: OnAnswer) -> None:
        if self._refusal or self._engine is None:
            if self._refusal and facts["ask"] != "drag":  # a drag asks at every move of the mouse
                self.message_sent.emit(self._refusal)
            take(None)
            return
        self._n += 1
        self._waiting[facts["ask"]] = _Question(self._n, facts, take)
        if not self._process.is_running:
            self._start_engine()
        self._send_next()

    def _start_engine(self) -> None:
        assert self._engine is not None
        self._process.start(self._engine, ["-m", "rotopaint_ai.live"])
        self._n += 1
        self._waiting["hello"] = _Question(self._n, {"ask": "hello", "version": wire.VERSION}, self._greet)
        for ask, facts in self._setup.items():
            if ask not in self._waiting:
                self._n += 1
                self._waiting[ask] = _Question(self._n, facts, lambda answer: None)

    def _greet(self, answer: EngineAnswer | None) -> None:
        if answer is not None:
            self._folder = str(answer["folder"])

    def _send_next(self) -> None:
        if self._asked is not None or not self._process.is_running or not self._waiting:
            return
        ask = next((each for each in ORDER if each in self._waiting), next(iter(self._waiting)))
        self._asked = self._waiting.pop(ask)
        self._process.send(wire.line({"id": self._asked.number, **self._asked.facts}))
        self._watch.start(PATIENCE_MS.get(ask, USUAL_PATIENCE_MS))

    def _answered(self, answer: EngineAnswer) -> None:
        question = self._asked
        if question is None or answer.get("id") != question.number:
            return
        if "done" in answer:
            self._watch.start()
            self.progressed.emit(int(answer["done"]), int(answer["total"]))
            return
        self._asked, self._restarts = None, 0
        self._watch.stop()
        if "error" in answer and answer["ask"] == "hello":
            self._give_up(str(answer["error"]))
            return
        if "error" in answer:
            self.message_sent.emit(str(answer["error"]))
            self._give_answer(question, None)
        else:
            self._give_answer(question, answer)
        self._send_next()

    def _give_answer(self, question: _Question, answer: EngineAnswer | None) -> None:
        try:
            question.take(answer)
        except OSError as error:  # its block went with the engine
            self.message_sent.emit(f"The live engine's answer was lost ({error}); try again")
            question.take(None)

    def _start_again(self) -> None:
        """Restart an engine that has ended, and repeat the request once; the session continues in any case."""
        question, self._asked = self._asked, None
        self._watch.stop()
        self._clear_blocks()
        self._restarts += 1
        if self._restarts > MAX_RESTARTS:
            self._give_up("The live engine stops again and again; landmarks move alone until the panel is opened anew")
            return
        self.lost.emit("The live engine stopped and was started again; nothing is lost")
        if question is not None and question.facts["ask"] not in self._waiting:
            if question.is_again:
                self.message_sent.emit(
                    f"The live engine cannot answer this ({question.facts['ask']}); nothing was changed"
                )
                self._give_answer(question, None)
            else:
                self._waiting[question.facts["ask"]] = replace(question, is_again=True)
        if self._engine is not None and not self._process.is_running:
            self._start_engine()
        self._send_next()

    def _give_up(self, text: str) -> None:
        """Answer every waiting request with None, because the engine cannot be started again."""
        waiting = [*self._waiting.values(), *([self._asked] if self._asked is not None else [])]
        self.shut_down()
        self._refusal = text
        self.lost.emit(text)
        for question in waiting:
            self._give_answer(question, None)

    def _clear_blocks(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _state_on_disk(self, state: State) -> Path:
        """The project file, or a temporary copy of the state where there is none; `_remove_copy` deletes it."""
        path = self.project_path()
        if path is not None:
            return path
        path = Path(tempfile.mkdtemp(prefix="rotopaint-")) / "state.rotopaint"  # a folder that only this user may read
        self._copies.add(path)
        Project.create(path, state).close()
        return path

    def _remove_copy(self, path: Path) -> None:
        """Delete a copy of a state; a project file stays."""
        if path in self._copies:
            self._copies.discard(path)
            shutil.rmtree(path.parent, ignore_errors=True)


def _keys_of_answer(answer: EngineAnswer, block: bytes) -> dict[str, dict[int, Key]]:
    keys: dict[str, dict[int, Key]] = {}
    at = 0
    for name, frame, size in answer["keys"]:
        keys.setdefault(name, {})[frame] = unpack("key", block[at : at + size])
        at += size
    return keys


def _taught_of_answer(answer: EngineAnswer, block: bytes) -> TaughtKeys:
    doubtful = {str(name): tuple(map(int, frames)) for name, frames in answer["doubtful"].items()}
    errors = {str(name): {int(f): float(px) for f, px in row.items()} for name, row in answer["errors"].items()}
    return TaughtKeys(_keys_of_answer(answer, block), doubtful, errors)


def _seam_preview(answer: EngineAnswer) -> SeamPreview:
    block = wire.take_block(answer["block"])
    x, y, width, height = answer["region"]
    size = 3 * width * height
    before, after, ms = (float(answer[name]) for name in ("before", "after", "ms"))
    picture, matte = block[:size], block[size:]
    return SeamPreview(answer["frame"], x, y, width, height, picture, matte, before, after, ms)


def _seams_about(question: SeamQuestion) -> RotoDocument:
    """The document with the seams and landmarks of one frame only, which is all that a preview needs."""
    document, frame = question.document, question.frame
    marks = {frame: row} if (row := document.landmarks.keys.get(frame)) is not None else {}
    shapes = tuple(_at_frame(shape, frame) for shape in document.shapes if shape.role == "seam" or shape.subtract)
    return replace(document, shapes=shapes, landmarks=LandmarkKeys(document.landmarks.names, marks))


def _at_frame(shape: RotoShape, frame: int) -> RotoShape:
    keys = {frame: Key(shape.at(frame))} if shape.keys else {}
    return replace(shape.with_keys(keys), visible={frame: shape.is_visible(frame)})
