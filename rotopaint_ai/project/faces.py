"""Several faces in one shot: one is in hand, the others are put aside as groups named after their characters.

Pure functions from states to new ones; standard library only. The models know the face in hand alone: its landmarks,
crop boxes and what they said of it. The shapes of the others stay in the document, under names of their own, with the
keys that they have: they are seen, edited, painted and exported, and no run of another face changes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from rotopaint_ai.errors import UsageError
from rotopaint_ai.project.names import checked_name
from rotopaint_ai.project.state import OtherFace, State
from rotopaint_ai.shapes.edit_layers import rename_layer
from rotopaint_ai.shapes.group_moves import placed_in_groups, taken_below_groups
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import LandmarkKeys, RotoDocument

V = TypeVar("V")


def face_names(state: State) -> tuple[str, ...]:
    """The faces of a shot, in the order of the alphabet; none where nobody has named one."""
    return tuple(sorted({*state.faces, *([state.face] if state.face else [])}))


def names_aside(state: State) -> frozenset[str]:
    """The names of the shapes of faces that are put aside."""
    return frozenset(name for face in state.faces.values() for name in face.aside.values())


def choose_face(state: State, name: str, pack: str | None) -> State:
    """The state with another face in hand, a new one where none has that name.

    The first name that is given is that of the face that is there. `pack` is the one that the face in hand was run
    with, and is kept with it. Raises UsageError for a name that files and other programs cannot hold.
    """
    name = checked_name("face", name)
    if name == state.face:
        return state
    if not state.face and not state.faces:
        return with_face_grouped(replace(state, face=name))
    return _taken_up(_put_aside(state, pack), name)


def pack_of(state: State, name: str, in_hand: str | None) -> str | None:
    """The pack that a face was last run with; None for a new face. `in_hand`: that of the face in hand.

    Raises UsageError as `choose_face`, whose first name is that of the face in hand.
    """
    name = checked_name("face", name)
    if name == state.face or (not state.face and not state.faces):
        return in_hand
    return state.faces[name].pack if name in state.faces else None


def rename_face(state: State, name: str, new_name: str) -> State:
    """The state with a face, and its group, under another name. Raises UsageError, DocumentError for one that is not
    free."""
    new_name = checked_name("face", new_name)
    if new_name in face_names(state) and new_name != name:
        raise UsageError(f"face {name}: another one is called {new_name}; choose a name that is free")
    document = state.document
    if document is not None and any(layer.name == name for layer in document.layers):
        document = rename_layer(document, name, new_name)
    faces = {new_name if each == name else each: face for each, face in state.faces.items()}
    return replace(state, document=document, faces=faces, face=new_name if state.face == name else state.face)


def with_face_grouped(state: State) -> State:
    """The state with the models' shapes of the face in hand in the group of its name, where it has one."""
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
    """What shapes are called after another face was taken in hand, by their names before."""
    gone, come = after.faces.get(before.face, OtherFace()), before.faces.get(after.face, OtherFace())
    return {**gone.aside, **{aside: own for own, aside in come.aside.items()}}


def _put_aside(state: State, pack: str | None) -> State:
    """The state without the face in hand: its shapes have names of their own."""
    state = with_face_grouped(state)
    document, models = state.document, state.predicted
    own = [] if models is None else [shape.name for shape in models.shapes]
    taken = {shape.name for shape in document.shapes} if document is not None else set()
    aside = {name: _unused_name(f"{state.face}_{name}", taken) for name in own if name in taken}
    bare = None if document is None else replace(document, shapes=(), metadata={})
    face = OtherFace(pack, aside, state.crops, bare, _below_groups(models, document), state.spreads)
    document = None if document is None else replace(_renamed(document, aside), landmarks=LandmarkKeys())
    predicted = None if document is None else replace(document, shapes=(), landmarks=LandmarkKeys(), metadata={})
    left = replace(state, document=document, predicted=predicted, crops={}, spreads=())
    return replace(_named_by(left, aside), faces={**state.faces, state.face: face}, face="")


def _taken_up(state: State, name: str) -> State:
    """The state with a face in hand that was put aside, or a new one."""
    face = state.faces.get(name)
    rest = {each: other for each, other in state.faces.items() if each != name}
    if face is None:
        return replace(state, faces=rest, face=name)
    back = {aside: own for own, aside in face.aside.items()}
    document = None if state.document is None else _renamed(state.document, back)
    if document is not None and face.document is not None:
        document = replace(document, landmarks=face.document.landmarks)
    predicted = None if face.predicted is None or document is None else placed_in_groups(face.predicted, document)
    taken = replace(
        state, document=document, predicted=predicted or state.predicted, crops=face.crops, spreads=face.spreads
    )
    return replace(_named_by(taken, back), faces=rest, face=name)


def _below_groups(models: RotoDocument | None, document: RotoDocument | None) -> RotoDocument | None:
    """What models said, in no group: groups go on moving while a face is put aside."""
    if models is None:
        return None
    below = taken_below_groups(models, document)
    return replace(below, shapes=tuple(replace(shape, layer=None) for shape in below.shapes))


def _unused_name(name: str, taken: Collection[str]) -> str:
    return next(each for k in range(1, len(taken) + 2) if (each := name if k == 1 else f"{name}_{k}") not in taken)


def _renamed(document: RotoDocument, names: Mapping[str, str]) -> RotoDocument:
    return replace(document, shapes=tuple(replace(s, name=names.get(s.name, s.name)) for s in document.shapes))


def _named_by(state: State, names: Mapping[str, str]) -> State:
    """The state with what is set for shapes under their new names."""

    def moved(rows: Mapping[str, V]) -> dict[str, V]:
        return {names.get(name, name): row for name, row in rows.items()}

    return replace(state, seams=moved(state.seams), names=moved(state.names))
