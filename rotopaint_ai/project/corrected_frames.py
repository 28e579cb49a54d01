"""The corrections of a project, for training: each frame that a person corrected, with the model's prediction there.

    for each in corrections(path): each.frame, each.landmarks, each.shapes ...

Standard library only. It can read a project while somebody works on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.project import run_record
from rotopaint_ai.project.database import Project
from rotopaint_ai.project.plate_files import FileFacts
from rotopaint_ai.project.state import Mark, State
from rotopaint_ai.shapes.roto import Landmark, Points, RotoDocument


@dataclass(frozen=True, slots=True)
class CorrectedFrame:
    """One frame that a person corrected. Plate space, pixels.

    `landmarks` and `shapes` are the current state: every landmark (None: hidden) and every shape with a key there.
    `hand_landmarks` and `human_shapes` name those that a person placed; the others were propagated or predicted.
    `model_shapes` are the model's predictions.
    """

    frame: int
    landmarks: tuple[Landmark | None, ...]
    shapes: Mapping[str, Points]
    hand_landmarks: frozenset[str] = frozenset()
    human_shapes: frozenset[str] = frozenset()
    model_shapes: Mapping[str, Points] = field(default_factory=dict)
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Corrections:
    """A project's corrected frames.

    `document` is the whole shot, `predicted` the models' prediction of it. `plate` is the source that was opened, None
    where the project has no plate; `files` are the facts known of some of its files. `widths`: full widths in pixels of
    the seams whose width a person set. All other widths come from a model, which widens them by its expected error.
    `run`: the last run's figures as the project keeps them.
    """

    project: Path
    plate: str | None
    colourspace: str | None
    document: RotoDocument
    frames: tuple[CorrectedFrame, ...]
    predicted: RotoDocument | None = None
    widths: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[int, FileFacts] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def errors(self) -> Mapping[str, Mapping[int, float]]:
        """The last run's expected errors by shape and frame, pixels. Raises: ProjectError for damaged ones."""
        return run_record.from_json(self.run).errors_by_shape() if self.run else {}


def corrections(path: Path) -> Corrections:
    """The corrected frames of a project file, in order.

    A frame counts where a person keyed a shape, placed a landmark, or accepted the frame. Frames marked "needs work" or
    "rejected" do not count. Shapes of other faces are left out, and so are shapes that people added to those of the
    models, because they are not part of the character.

    Raises: ProjectError, DamagedProjectError; DocumentError where the project has no shapes yet.
    """
    project = Project.open(path, write=False)
    try:
        state, plate, files = _of_the_models(project.load().state), project.note("plate") or {}, project.files()
        run = project.note("run") or {}
    finally:
        project.close()
    if state.document is None:
        raise DocumentError(f"{path.name}: holds no shapes yet; press Run in the panel, correct some frames, then mine")
    frames = tuple(_corrected_frame(state, state.document, frame) for frame in frames_to_learn_from(state))
    widths = {name: seam.width_px for name, seam in state.seams.items() if seam.width_px is not None}
    source = plate.get("source"), plate.get("colourspace")
    return Corrections(path, *source, state.document, frames, state.predicted, widths, files, run)


def _of_the_models(state: State) -> State:
    """The state without shapes of other faces; where models made shapes, also without the shapes that they lack."""
    document, models = state.document, state.predicted
    if document is None:
        return state
    made = {shape.name for shape in models.shapes} if models is not None and models.shapes else None
    kept = (s for s in document.shapes if s.name not in state.aside and (made is None or s.name in made))
    return replace(state, document=replace(document, shapes=tuple(kept)))


def frames_to_learn_from(state: State) -> list[int]:
    """Frames of a state that training may use."""
    document = _of_the_models(state).document
    if document is None:
        return []
    found = {frame for shape in document.shapes for frame, key in shape.keys.items() if key.source == "human"}
    found |= {frame for frame, names in document.landmarks.hand.items() if names}
    found |= {frame for frame, mark in state.marks.items() if mark == "accepted"}
    return sorted(frame for frame in found if state.marks.get(frame) not in ("needs work", "rejected"))


def _corrected_frame(state: State, document: RotoDocument, frame: int) -> CorrectedFrame:
    model = state.predicted
    return CorrectedFrame(
        frame=frame,
        landmarks=document.landmarks.keys.get(frame, ()),
        shapes={shape.name: shape.keys[frame].points for shape in document.shapes if frame in shape.keys},
        hand_landmarks=document.landmarks.hand.get(frame, frozenset()),
        human_shapes=frozenset(
            shape.name for shape in document.shapes if frame in shape.keys and shape.keys[frame].source == "human"
        ),
        model_shapes={s.name: s.keys[frame].points for s in model.shapes if frame in s.keys} if model else {},
        mark=state.marks.get(frame),
    )
