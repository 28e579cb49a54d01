"""The shapes of the current run, from its events: a document to look at, not yet to edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rotopaint_ai.project.merge_run import EditedPredictions
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes.group_moves import apply_groups
from rotopaint_ai.shapes.manual_keys import LandmarkRow, frames_corrected, with_manual_keys
from rotopaint_ai.shapes.merge import merge
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape


class LiveDocument:
    """Collects `frame` events of one run; `document` holds the shapes so far."""

    def __init__(self, started: Mapping[str, Any], earlier: EditedPredictions) -> None:
        """`earlier`: predictions of a stopped run, which this one may resume, at places that a person edited."""
        self._started = started
        self._names = tuple(str(name) for name in started["landmarks"])
        self._specs = tuple(started["shapes"])
        self._keys: dict[str, dict[int, Key]] = {spec["name"]: {} for spec in self._specs}
        self._widths: dict[str, float] = {}
        self._landmarks: dict[int, LandmarkRow] = {}
        self._under: dict[str, dict[int, Key]] = {
            spec["name"]: dict(earlier.keys.get(spec["name"], {})) for spec in self._specs
        }
        self._landmarks_under: dict[int, LandmarkRow] = dict(earlier.landmarks)

    def add(self, facts: Mapping[str, Any]) -> None:
        """Add a `frame` event."""
        frame = int(facts["frame"])
        for field, into in (("landmarks", self._landmarks), ("predicted_landmarks", self._landmarks_under)):
            if facts.get(field):
                into[frame] = tuple(None if row is None else Landmark(*row) for row in facts[field])
        for field, keys in (("shapes", self._keys), ("predicted", self._under)):
            for name, rows in (facts.get(field) or {}).items():
                if name in keys:
                    keys[name][frame] = Key(tuple(ControlPoint(*row) for row in rows))
        self._widths |= facts.get("widths") or {}

    @property
    def edited(self) -> EditedPredictions:
        """The models' predictions so far at places that a person edited."""
        return EditedPredictions(self._under, self._landmarks_under)

    def document(self) -> RotoDocument:
        """The document from the events so far."""
        started = self._started
        return RotoDocument(
            width=started["width"],
            height=started["height"],
            first_frame=started["first_frame"],
            last_frame=started["last_frame"],
            pixel_aspect=started["pixel_aspect"],
            fps=started["fps"],
            landmarks=LandmarkKeys(self._names, dict(self._landmarks)),
            shapes=tuple(self._empty_shape(spec) for spec in self._specs),
        )

    def among(self, state: State) -> RotoDocument:
        """The run's shapes so far, the old ones at other frames, and the artist's own keys and groups."""
        live, own = self.document(), state.document
        if own is None:
            return live
        came = frozenset(live.landmarks.keys).union(*(shape.keys for shape in live.shapes))
        live = apply_groups(live, own, frames_corrected(state.predicted, own))
        return with_manual_keys(merge(own, live, came), own, state.aside)

    def _empty_shape(self, spec: Mapping[str, Any]) -> RotoShape:
        name = spec["name"]
        return RotoShape(
            name=name,
            closed=spec["closed"],
            role=spec["role"],
            keys=dict(self._keys[name]),
            width_px=None if spec["closed"] else self._widths.get(name),
            feather_px=spec.get("feather_px", 0.0),
        )
