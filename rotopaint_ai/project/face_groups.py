"""Several faces in one shot: one is the current face, the others are set aside as groups named after their characters.

Pure functions from states to new states; standard library only. Models work on the current face alone: its landmarks,
its crop boxes, its predictions. The shapes of the other faces stay in the document, renamed, with all their keys. They
are shown, edited, painted and exported, and a run of the current face does not change them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from rotopaint_ai.errors import UsageError
from rotopaint_ai.project.names import checked_name
from rotopaint_ai.project.state import OtherFace, State
from rotopaint_ai.shapes.edit_layers import rename_layer
from rotopaint_ai.shapes.group_moves import apply_groups, remove_groups
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import LandmarkKeys, RotoDocument

V = TypeVar("V")


def face_names(state: State) -> tuple[str, ...]:
    """The names of the faces of a shot in alphabetical order; empty where no face has a name."""
    return tuple(sorted({*state.faces, *([state.face] if state.face else [])}))


def choose_face(state: State, name: str, pack: str | None) -> State:
    """The state with another current face; a new face where none has that name.

    Where the current face has no name yet, `name` names that face. `pack` is the pack of the current face's last run;
    it is stored with that face. Raises UsageError for a name that files and other programs cannot hold.
    """
    name = checked_name("face", name)
    if name == state.face:
        return state
    if not state.face and not state.faces:
        return with_face_grouped(replace(state, face=name))
    return _bring_back(_put_aside(state, pack), name)


def pack_of(state: State, name: str, in_hand: str | None) -> str | None:
    """The pack of a face's last run; None for a new face. `in_hand`: the pack of the current face.

    Raises UsageError as `choose_face` does. Where the current face has no name yet, `name` means that face.
    """
    name = checked_name("face", name)
    if name == state.face or (not state.face and not state.faces):
        return in_hand
    return state.faces[name].pack if name in state.faces else None


def rename_face(state: State, name: str, new_name: str) -> State:
    """The state with a face and its group renamed.

    Raises: UsageError, DocumentError where the new name is not free."""
    new_name = checked_name("face", new_name)
    if new_name in face_names(state) and new_name != name:
        raise UsageError(f"face {name}: another face is called {new_name}; choose a name that is free")
    document = state.document
    if document is not None and any(layer.name == name for layer in document.layers):
        document = rename_layer(document, name, new_name)
    faces = {new_name if each == name else each: face for each, face in state.faces.items()}
    return replace(state, document=document, faces=faces, face=new_name if state.face == name else state.face)


def with_face_grouped(state: State) -> State:
    """The state with the models' shapes of the current face in the group of that face, where it has a name."""
    document, models = state.document, state.predicted
    if not state.face or document is None or models is None:
        return state
    own = {shape.name for shape in models.shapes}
    if not any(shape.name in own and shape.layer is None for shape in document.shapes):
        return state
    group = next((layer for layer in document.layers if layer.name == state.face), Layer(state.face))
    shapes = (replace(s, layer=group) if s.name in own and s.layer is None else s for s in document.shapes)
    return replace(state, document=replace(document, shapes=tuple(shapes)))


def names_between(before: State, after: State) -> dict[str, str]:
    """The new names of shapes after a change of the current face, by their old names."""
    gone, come = after.faces.get(before.face, OtherFace()), before.faces.get(after.face, OtherFace())
    return {**gone.aside, **{aside: own for own, aside in come.aside.items()}}


def _put_aside(state: State, pack: str | None) -> State:
    """The state with the current face set aside; its shapes are renamed."""
    state = with_face_grouped(state)
    document, models = state.document, state.predicted
    own = [] if models is None else [shape.name for shape in models.shapes]
    taken = {shape.name for shape in document.shapes} if document is not None else set()
    aside = {name: _unused_name(f"{state.face}_{name}", taken) for name in own if name in taken}
    bare = None if document is None else replace(document, shapes=(), metadata={})
    face = OtherFace(pack, aside, state.crops, bare, _below_groups(models, document), state.spreads)
    document = None if document is None else replace(_rename_document(document, aside), landmarks=LandmarkKeys())
    predicted = None if document is None else replace(document, shapes=(), landmarks=LandmarkKeys(), metadata={})
    left = replace(state, document=document, predicted=predicted, crops={}, spreads=())
    return replace(_named_by(left, aside), faces={**state.faces, state.face: face}, face="")


def _bring_back(state: State, name: str) -> State:
    """The state with a face that was set aside, or a new one, as the current face."""
    face = state.faces.get(name)
    rest = {each: other for each, other in state.faces.items() if each != name}
    if face is None:
        return replace(state, faces=rest, face=name)
    back = {aside: own for own, aside in face.aside.items()}
    document = None if state.document is None else _rename_document(state.document, back)
    if document is not None and face.document is not None:
        document = replace(document, landmarks=face.document.landmarks)
    predicted = None if face.predicted is None or document is None else apply_groups(face.predicted, document)
    taken = replace(
        state, document=document, predicted=predicted or state.predicted, crops=face.crops, spreads=face.spreads
    )
    return replace(_named_by(taken, back), faces=rest, face=name)


def _below_groups(models: RotoDocument | None, document: RotoDocument | None) -> RotoDocument | None:
    """The models' predictions without groups, because groups may change while a face is set aside."""
    if models is None:
        return None
    below = remove_groups(models, document)
    return replace(below, shapes=tuple(replace(shape, layer=None) for shape in below.shapes))


def _unused_name(name: str, taken: Collection[str]) -> str:
    return next(each for k in range(1, len(taken) + 2) if (each := name if k == 1 else f"{name}_{k}") not in taken)


def _rename_document(document: RotoDocument, names: Mapping[str, str]) -> RotoDocument:
    return replace(document, shapes=tuple(replace(s, name=names.get(s.name, s.name)) for s in document.shapes))


def _named_by(state: State, names: Mapping[str, str]) -> State:
    """The state with the settings of shapes moved to their new names."""

    def moved(rows: Mapping[str, V]) -> dict[str, V]:
        return {names.get(name, name): row for name, row in rows.items()}

    return replace(state, seams=moved(state.seams), names=moved(state.names))
