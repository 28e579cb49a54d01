"""Command lines of the jobs that the panel starts; an artist could type the same. No Qt."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_text
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.project.fingerprints import seams_of
from rotopaint_ai.project.state import SeamSettings
from rotopaint_ai.seams import strokes
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import RIG_FOLDER, PlateFacts
from rotopaint_ui.settings.preferences import Preferences

SETTINGS_NAME = "seams.json"
TOUCHUP_NAME = "touchup.json"
STATE_FOLDER = ".rotopaint"  # the state that a run leaves for a resumed run


def run_frames(session: ShotSession, choice: PlateChoice, *, ignores_range: bool = False) -> tuple[int, ...] | None:
    """The plate's frames that a run is for: the host's range between In and Out; None: all frames.

    Raises: UsageError where none is left.
    """
    assert session.plate is not None
    frames = session.plate.frames if ignores_range else session.wanted_frames
    if choice.frames is not None:
        frames = tuple(frame for frame in frames if frame in FrameRange.parse(choice.frames))
    if not frames:
        raise UsageError("In and Out: no frame of the plate lies between them; Ctrl+I takes all frames again")
    return None if frames == session.plate.frames else frames


def frames_argument(plate: PlateFacts, choice: PlateChoice, frames: Collection[int] | None) -> str | None:
    """The value of `--frames`: `run_frames`, or the host's range; None: all frames.

    The panel opens the sequence of a file that was dropped on it; on a command line such a file is one picture.
    """
    if frames is None and (choice.frames is not None or not plate.is_named_by_frame):
        return choice.frames
    wanted = plate.frames if frames is None else frames
    return str(FrameRange(min(wanted), max(wanted)))


def run_command(
    session: ShotSession,
    choice: PlateChoice,
    pack: str | None,
    preferences: Preferences,
    frames: Collection[int] | None = None,
) -> list[str]:
    """The command of a run of some frames, or of all; with a project, people's edits are kept."""
    assert session.plate is not None
    words = ["run", session.plate.source, "--out", str(session.out), "--events"]
    if session.out is not None and _goes_on(session.out, session.plate.frames if frames is None else frames):
        words.append("--resume")
    crops = [box.word(frame) for frame, box in sorted(session.state.crops.items())]
    for crop in crops or ["auto"]:
        words += ["--crop", crop]
    if session.project.path is not None:
        words += ["--project", str(session.project.path), "--leave-project"]
    else:  # no project says that box and pack may change: the folder is the panel\'s own
        words.append("--overwrite")
    if pack is not None:
        words += ["--model", pack]
    wanted = frames_argument(session.plate, choice, frames)
    if wanted is not None:
        words += ["--frames", wanted]
    if preferences.device != "auto":
        words += ["--device", preferences.device]
    return words + _plate_words(choice, preferences)


def _goes_on(out: Path, frames: Collection[int]) -> bool:
    """Whether a folder holds an unfinished run of these frames; the engine itself reports what else has changed."""
    try:
        job = json.loads((out / STATE_FOLDER / "job.json").read_text(encoding="utf-8"))
        return bool(job["frames"] == [summarise(frames)])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def clean_command(
    session: ShotSession,
    choice: PlateChoice,
    pack: str | None,
    preferences: Preferences,
    frames: Collection[int],
    *,
    patch: bool,
) -> list[str]:
    """The command that renders frames of the clean plate again, with each seam's settings and the touch-up.

    The project supplies both where there is one, else files that are written here. `patch`: also write the paint alone,
    as premultiplied RGBA.
    """
    assert session.plate is not None
    assert session.out is not None
    words = ["clean", session.plate.source, *_what_to_paint(session), "--out", str(session.out), "--events"]
    words += ["--frames", summarise(frames).replace(" ", "")]
    words += ["--model", pack] if pack is not None else []
    words += ["--patch"] if patch else []
    return words + _plate_words(choice, preferences)


def _what_to_paint(session: ShotSession) -> list[str]:
    """The arguments for shapes, settings of seams and touch-up."""
    if session.project.path is not None:
        return ["--project", str(session.project.path), "--leave-project"]
    assert session.out is not None
    words = [str(session.shapes_file.path)]
    seams = {shape.name: session.seams.of(shape.name) for shape in seams_of(session.state.document)}
    if session.state.seams:
        write_settings(session.out / SETTINGS_NAME, seams)
        words += ["--settings", str(session.out / SETTINGS_NAME)]
    if session.state.strokes:
        write_text(session.out / TOUCHUP_NAME, strokes.dumps(session.state.strokes))
        words += ["--touchup", str(session.out / TOUCHUP_NAME)]
    return words


def matte_command(shapes: Path, out: Path, preferences: Preferences) -> list[str]:
    """The command that draws the mattes of all shapes."""
    return ["matte", str(shapes), "--out", str(out), "--events", *_thread_words(preferences)]


def rig_command(
    session: ShotSession,
    choice: PlateChoice,
    preferences: Preferences,
    shapes: Path,
    names: Collection[str],
    frames: Collection[int] | None = None,
) -> list[str]:
    """The command that removes a rig under some closed shapes of a document's file, into a folder of its own."""
    assert session.plate is not None
    assert session.out is not None
    words = ["clean", session.plate.source, str(shapes), "--out", str(session.out / RIG_FOLDER), "--events"]
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(names)  # a name may hold a comma
    words += ["--rig", "--only", row.getvalue(), "--overwrite"]
    wanted = frames_argument(session.plate, choice, frames)
    words += ["--frames", wanted] if wanted is not None else []
    return words + _plate_words(choice, preferences)


def write_settings(path: Path, seams: Mapping[str, SeamSettings]) -> None:
    """Write the seams' settings in the form that `rotopaint clean --settings` reads."""
    rows = {name: paint_fields(seam) for name, seam in seams.items()}
    write_text(path, json.dumps(rows, indent=1) + "\n")


def paint_fields(seam: SeamSettings) -> dict[str, Any]:
    """A seam's paint by the names of `rotopaint clean --settings` and of the live engine."""
    return {"method": seam.method, "grain": seam.grain, "strength": seam.strength, "hold_out": seam.hold_out}


def _plate_words(choice: PlateChoice, preferences: Preferences) -> list[str]:
    words = ["--colourspace", choice.colourspace] if choice.colourspace is not None else []
    return words + _thread_words(preferences)


def _thread_words(preferences: Preferences) -> list[str]:
    return ["--threads", str(preferences.threads)] if preferences.threads else []
