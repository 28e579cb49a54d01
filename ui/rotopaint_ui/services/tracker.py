"""Track: shapes that people drew follow the surface under them from their keys, beside the screen, as one step.

A group that is selected follows as a whole: the plane under its shapes moves it, and its transform corrects that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.frames import summarise
from rotopaint_ai.shapes.edit import key_of
from rotopaint_ai.shapes.edit_layers import track_layer
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.manual_keys import drop_propagated, manual_keys, with_model_keys
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
from rotopaint_ui.engine.export_client import ExportClient
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.session.session import ShotSession

_Facts = Mapping[str, Any]  # what the engine answered
_Rows = Mapping[str, Sequence[Sequence[float]]]  # control points by frame
REST_MS = 150  # interval of checks whether the drag has ended


class ShapeTracker(QObject):
    """`message_sent` gives a line and its kind, `progressed` done, total and a note.

    Keys that people made never move.
    """

    message_sent = Signal(str, str)
    progressed = Signal(int, int, str)
    ended = Signal()

    def __init__(self, session: ShotSession, engine: Callable[[], Engine], parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._engine = session, engine
        self._client = ExportClient(self)
        self._client.progressed.connect(self._tell_frames)
        self._asked: tuple[RotoShape, ...] = ()
        self._layer: Layer | None = None  # that follows as a whole
        self._start = 0  # the frame that it is tracked from
        self._frames: frozenset[int] = frozenset()
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)

    @property
    def is_running(self) -> bool:
        """Whether shapes are being tracked."""
        return bool(self._asked)

    def track(self, choice: PlateChoice) -> None:
        """Track the selected shapes over the frames between In and Out; shows the reason where that is impossible."""
        session, trouble = self._session, self._why_not_tracked()
        if trouble:
            self.message_sent.emit(trouble, "plain")
            return
        if session.project.refuses() or session.edits.is_gesture_open():
            return
        document = session.state.document
        assert document is not None
        shapes = self._chosen_drawn(document)
        away = tuple(shape for shape in document.shapes if shape.subtract and shape not in shapes)
        layer = session.selection.layer
        self._layer = next((each for each in document.layers if each.name == layer), None)
        self._start, self._frames = session.frame, frozenset(session.wanted_frames)
        request = {
            "ask": "follow" if self._layer is None else "follow group",
            "start": session.frame,
            "plate": choice.source,
            "colourspace": choice.colourspace,
            "frames": list(session.wanted_frames),
            "shapes": [shape.name for shape in shapes],
        }
        try:
            self._client.ask(self._engine(), request, self._take_points, replace(document, shapes=(*shapes, *away)))
        except RotopaintError as error:
            self.message_sent.emit(str(error), "trouble")
            return
        self._asked = shapes
        what = f"{self._names(shapes)} from their keys" if self._layer is None else f"the plane under {layer} from here"
        self.message_sent.emit(f"Track: following {what}; Esc stops it", "plain")
        self.progressed.emit(0, 0, "")

    def stop(self) -> None:
        """Stop; nothing has changed."""
        if self.is_running:
            self._end_track()
            self.message_sent.emit("Track: stopped, nothing was changed", "plain")

    def forget(self) -> None:
        """Drop the tracking, because another shot is open."""
        self.stop()

    def shut_down(self) -> None:
        """End the tracking process."""
        self._end_track()
        self._client.shut_down()

    def _chosen_drawn(self, document: RotoDocument) -> tuple[RotoShape, ...]:
        session = self._session
        names = session.selection.shapes - session.locked - session.hidden
        return tuple(shape for shape in document.shapes if shape.name in names)

    def _why_not_tracked(self) -> str:
        document, predicted = self._session.state.document, self._session.state.predicted
        shapes = () if document is None else self._chosen_drawn(document)
        model = set() if predicted is None else {shape.name for shape in predicted.shapes}
        if self.is_running:
            return "Shapes are being tracked already; Esc stops it"
        if self._session.runs.is_live:
            return "The run is under way: track when it has ended"
        if not shapes:
            return "Select the shapes that are to follow their surface: those that you drew"
        if self._session.selection.layer is not None:
            return ""
        if known := [shape for shape in shapes if shape.name in model]:
            return f"{self._names(known)}: the models make it; Spread, Refit and Teach carry your corrections over"
        if bare := [shape for shape in shapes if not manual_keys(shape)]:
            return f"{self._names(bare)}: set a key by hand first; it is followed from there"
        return ""

    def _names(self, shapes: Sequence[RotoShape]) -> str:
        return ", ".join(self._session.names.of(shape.name) for shape in shapes)

    def _tell_frames(self, done: int, total: int) -> None:
        if self.is_running:
            self.progressed.emit(done, total, f"frame {done} of {total}")

    def _end_track(self) -> None:
        self._asked = ()
        self._rest.stop()
        self._client.drop()
        self.ended.emit()

    def _take_points(self, facts: _Facts) -> None:
        """Merge the answer into the current shot, once no drag is in progress."""
        session, asked = self._session, self._asked
        if not asked:
            return
        if "error" in facts:
            self._end_track()
            self.message_sent.emit(f"Track: {facts['error']}", "trouble")
            return
        if session.edits.has_gesture or session.runs.is_live:
            self._rest.singleShot(REST_MS, self, partial(self._take_points, facts))
            return
        self._end_track()
        document = session.state.document
        now = {} if document is None else {shape.name: shape for shape in document.shapes}
        if self._layer is not None:
            self._take_group(facts, self._layer)
            return
        if any(shape.name not in now or manual_keys(now[shape.name]) != manual_keys(shape) for shape in asked):
            self.message_sent.emit("Track once more: a key that it followed was changed meanwhile", "trouble")
            return
        assert document is not None
        keys = {name: _tracked_keys(now[name], rows, facts["feathers"][name]) for name, rows in facts["points"].items()}
        bare = drop_propagated(document, dict.fromkeys(keys, self._frames))
        session.edits.push("track", replace(session.state, document=with_model_keys(bare, keys)))
        self._tell_end(set().union(*keys.values()), facts)

    def _take_group(self, facts: _Facts, layer: Layer) -> None:
        """Store the track of a group, unless the group was changed meanwhile."""
        document = self._session.state.document
        if document is None or layer not in document.layers:
            self.message_sent.emit("Track once more: the group was changed meanwhile", "trouble")
            return
        track = {int(frame): tuple(row) for frame, row in facts["track"].items()}
        try:
            document = track_layer(document, layer.name, self._start, track)
        except RotopaintError as error:
            self.message_sent.emit(f"Track: {error}", "trouble")
            return
        self._session.edits.push("track group", replace(self._session.state, document=document))
        self._tell_end(track.keys() - {self._start}, facts, "correct it there with T")

    def _tell_end(self, frames: Collection[int], facts: _Facts, cure: str = "key it there, track again") -> None:
        """Report how many frames were tracked, how surely, and which were not; trouble if none was."""
        unsure = {int(frame): px for frame, px in facts["unsure"].items()}
        text = f"Track: {len(frames)} frame{'s'[: len(frames) != 1]} followed"
        if unsure:
            text += f"; up to {max(unsure.values()):.0f} px off on {summarise(sorted(unsure))}"
        if facts["lost"]:
            text += f"; the surface was not found on {summarise(facts['lost'])}, which got no keys"
        if unsure or facts["lost"]:
            text += f": {cure}"
        self.message_sent.emit(text, "good" if frames else "trouble")


def _tracked_keys(shape: RotoShape, rows: _Rows, feathers: _Rows) -> dict[int, Key]:
    """The keys of a shape from the engine's answer; widths stay as they are at these frames."""
    points, lines = (
        {int(frame): tuple(ControlPoint(*row) for row in each) for frame, each in answer.items()}
        for answer in (rows, feathers)
    )
    return {
        frame: replace(key_of(shape, frame, each, "propagated", "linear"), feather=lines[frame])
        for frame, each in points.items()
    }
