"""Several faces in one shot: put aside and taken up again, with what people and models had said of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.project import CropBox, Project, SeamSettings, State, codecs, face_groups
from rotopaint_ai.project.state import Spread
from rotopaint_ai.shapes import edit_layers, group_moves
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape


def curve(x: float, source: str = "model") -> Key:
    return Key((ControlPoint(x, 5), ControlPoint(x + 9, 5)), source)  # type: ignore[arg-type]


def document(x: float, *more: RotoShape) -> RotoDocument:
    seam = RotoShape("seam", False, "seam", {1: curve(x), 2: curve(x + 1)}, width_px=4.0)
    marks = LandmarkKeys(("nose",), {1: (Landmark(x, 9.0),), 2: (Landmark(x + 1, 9.0),)}, {1: frozenset({"nose"})})
    return RotoDocument(64, 48, 1, 2, landmarks=marks, shapes=(seam, *more))


DRAWN = RotoShape("badge", True, "matte", {1: curve(30, "human")})
FIRST = State(
    document=document(10, DRAWN),
    predicted=document(10),
    crops={1: CropBox(1, 2, 3, 4)},
    seams={"seam": SeamSettings(width_px=7.0)},
    names={"seam": "Nose"},
    spreads=(Spread(1, 1, 2),),
    marks={1: "accepted"},
)


def shapes(state: State) -> dict[str, str | None]:
    assert state.document is not None
    return {shape.name: shape.layer and shape.layer.name for shape in state.document.shapes}


def test_the_first_name_is_that_of_the_face_that_is_there() -> None:
    named = face_groups.choose_face(FIRST, "Anna", "kubo")
    assert (named.face, named.faces, shapes(named)) == ("Anna", {}, {"seam": "Anna", "badge": None})
    assert face_groups.choose_face(named, " Anna ", None) is named
    with pytest.raises(UsageError, match="face: the name holds '/'"):
        face_groups.choose_face(named, "a/b", None)


def test_a_face_has_the_pack_that_it_was_last_run_with() -> None:
    """For a face set aside, the current one, a new one, and the first one to be named."""
    state = face_groups.choose_face(State(face="Anna"), "Bo", "annas")
    assert [face_groups.pack_of(state, name, "bos") for name in ("Anna", " Bo ", "Cy")] == ["annas", "bos", None]
    assert face_groups.pack_of(State(), "Anna", "annas") == "annas"
    with pytest.raises(UsageError, match="holds '/'"):
        face_groups.pack_of(state, "A/B", None)


def test_a_face_returns_unchanged_after_another_was_chosen(tmp_path: Path) -> None:
    named = face_groups.choose_face(FIRST, "Anna", None)
    bo = face_groups.choose_face(named, "Bo", "kubo")
    assert face_groups.face_names(bo) == ("Anna", "Bo")
    assert shapes(bo) == {"Anna_seam": "Anna", "badge": None}
    assert bo.document is not None
    assert (bo.crops, bo.spreads, bo.document.landmarks) == ({}, (), LandmarkKeys())
    assert (bo.aside, bo.faces["Anna"].pack) == ({"Anna_seam"}, "kubo")
    assert (bo.seams, bo.names) == ({"Anna_seam": SeamSettings(width_px=7.0)}, {"Anna_seam": "Nose"})
    assert bo.marks == FIRST.marks  # of the shot
    project = Project.create(tmp_path / "shot.rotopaint", named)
    project.append("choose face", named, bo)
    project.close()
    project = Project.open(tmp_path / "shot.rotopaint")
    kept = project.load().state
    project.close()
    assert kept == bo
    assert codecs.apply_changes(kept, dict(codecs.changes(kept, named))) == named  # undo
    again = face_groups.choose_face(kept, "Anna", None)
    assert again == replace(named, faces={"Bo": again.faces["Bo"]})


def test_a_group_that_moves_while_its_face_is_aside_moves_what_models_said() -> None:
    bo = face_groups.choose_face(face_groups.choose_face(FIRST, "Anna", None), "Bo", None)
    assert bo.document is not None
    moved = edit_layers.set_pose(bo.document, "Anna", [1], LayerPose(x=6))
    anna = face_groups.choose_face(replace(bo, document=moved), "Anna", None)
    assert anna.predicted is not None
    assert [anna.predicted.shape("seam").at(frame)[0].x for frame in (1, 2)] == [16.0, 17.0]
    assert group_moves.remove_groups(anna.predicted, anna.document).shape("seam").at(2)[0].x == 11.0


def test_a_face_is_renamed_with_its_group() -> None:
    bo = face_groups.choose_face(face_groups.choose_face(FIRST, "Anna", None), "Bo", None)
    other = face_groups.rename_face(bo, "Anna", "Lena")
    assert (face_groups.face_names(other), shapes(other)["Anna_seam"]) == (("Bo", "Lena"), "Lena")
    assert shapes(face_groups.choose_face(other, "Lena", None)) == {"seam": "Lena", "badge": None}
    assert face_groups.rename_face(bo, "Bo", "Kubo").face == "Kubo"
    with pytest.raises(UsageError, match="another face is called Bo"):
        face_groups.rename_face(bo, "Anna", "Bo")


def test_a_name_that_a_shape_has_already_is_left_alone() -> None:
    taken = replace(DRAWN, name="Anna_seam")
    state = replace(FIRST, document=document(10, taken))
    bo = face_groups.choose_face(face_groups.choose_face(state, "Anna", None), "Bo", None)
    assert shapes(bo) == {"Anna_seam_2": "Anna", "Anna_seam": None}
    assert face_groups.names_between(face_groups.choose_face(state, "Anna", None), bo) == {"seam": "Anna_seam_2"}
    assert Layer("Anna") in (bo.document.layers if bo.document else ())
