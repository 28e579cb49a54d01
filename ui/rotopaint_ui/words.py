"""Command lines of the jobs that the panel starts: what an artist could type just as well. No Qt."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from rotopaint_ai.files import write_text
from rotopaint_ai.frames import summarise
from rotopaint_ai.project.prints import seams_of
from rotopaint_ai.project.values import SeamSettings
from rotopaint_ai.seams import strokes
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.preferences import Preferences
from rotopaint_ui.session import Session

SETTINGS_NAME = "seams.json"
TOUCHUP_NAME = "touchup.json"
STATE_FOLDER = ".rotopaint"  # what a run leaves for the next one to go on from


def run_words(session: Session, choice: PlateChoice, pack: str | None, preferences: Preferences) -> list[str]:
    """A run of the whole shot; what people have done stands, where a project keeps it."""
    assert session.plate is not None
    words = ["run", session.plate.source, "--out", str(session.out), "--events"]
    if session.out is not None and (session.out / STATE_FOLDER).is_dir():
        words.append("--resume")
    crops = [box.word(frame) for frame, box in sorted(session.state.crops.items())]
    for crop in crops or ["auto"]:
        words += ["--crop", crop]
    if session.project_path is not None:
        words += ["--project", str(session.project_path), "--leave-project"]
    if pack is not None:
        words += ["--model", pack]
    if choice.frames is not None:
        words += ["--frames", choice.frames]
    if preferences.device != "auto":
        words += ["--device", preferences.device]
    return words + _plate_words(choice, preferences)


def clean_words(
    session: Session,
    choice: PlateChoice,
    pack: str | None,
    preferences: Preferences,
    frames: Collection[int],
    *,
    patch: bool,
) -> list[str]:
    """Some frames of the clean plate again, each seam with its own settings, and touch-up laid over them.

    All of it is read from the project where one keeps it, else from files that are written here. `patch`: the paint
    alone as well, premultiplied RGBA.
    """
    assert session.plate is not None
    assert session.out is not None
    words = ["clean", session.plate.source, *_what_to_paint(session), "--out", str(session.out), "--events"]
    words += ["--frames", summarise(frames).replace(" ", "")]
    words += ["--model", pack] if pack is not None else []
    words += ["--patch"] if patch else []
    return words + _plate_words(choice, preferences)


def _what_to_paint(session: Session) -> list[str]:
    """Shapes, settings of seams and touch-up."""
    if session.project_path is not None:
        return ["--project", str(session.project_path), "--leave-project"]
    assert session.out is not None
    words = [str(session.shapes_path)]
    seams = {shape.name: session.seam(shape.name) for shape in seams_of(session.state.document)}
    if session.state.seams:
        write_settings(session.out / SETTINGS_NAME, seams)
        words += ["--settings", str(session.out / SETTINGS_NAME)]
    if session.state.strokes:
        write_text(session.out / TOUCHUP_NAME, strokes.dumps(session.state.strokes))
        words += ["--touchup", str(session.out / TOUCHUP_NAME)]
    return words


def matte_words(shapes: Path, out: Path, preferences: Preferences) -> list[str]:
    """Mattes of every shape."""
    return ["matte", str(shapes), "--out", str(out), "--events", *_threads(preferences)]


def write_settings(path: Path, seams: Mapping[str, SeamSettings]) -> None:
    """The settings of seams as `rotopaint clean --settings` reads them."""
    rows = {
        name: {"method": seam.method, "grain": seam.grain, "strength": seam.strength} for name, seam in seams.items()
    }
    write_text(path, json.dumps(rows, indent=1) + "\n")


def _plate_words(choice: PlateChoice, preferences: Preferences) -> list[str]:
    words = ["--colourspace", choice.colourspace] if choice.colourspace is not None else []
    return words + _threads(preferences)


def _threads(preferences: Preferences) -> list[str]:
    return ["--threads", str(preferences.threads)] if preferences.threads else []
