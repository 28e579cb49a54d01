"""Which frames of a clean plate no longer fit: whatever the paint depends on makes a frame stale, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.project.fingerprints import PaintFingerprints
from rotopaint_ai.project.state import SeamSettings
from rotopaint_ai.seams.strokes import Stroke
from rotopaint_ai.shapes import edit
from rotopaint_ui.engine.command_lines import clean_command, run_command, run_frames
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.session.painting import Painting
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import read_run_results
from rotopaint_ui.settings.preferences import Preferences

from .conftest import FRAMES, move_points


@pytest.fixture
def fingerprints() -> PaintFingerprints:
    return PaintFingerprints()


@pytest.fixture
def fresh(session: ShotSession, fingerprints: PaintFingerprints) -> dict[int, str]:
    """A clean plate that is up to date."""
    return fingerprints.of(session.state, FRAMES)


def test_a_moved_seam_makes_its_frame_stale_and_an_eye_does_not(
    session: ShotSession, fingerprints: PaintFingerprints, fresh: dict[int, str]
) -> None:
    state = session.state
    assert state.document is not None
    assert fingerprints.stale(state, FRAMES, fresh) == []
    moved = move_points(state.document, "seam", [1002], {1}, 0.5, 0)
    assert fingerprints.stale(replace(state, document=moved), FRAMES, fresh) == [1002]
    eye = move_points(state.document, "eye", [1002], {1}, 5, 0)
    assert fingerprints.stale(replace(state, document=eye), FRAMES, fresh) == []


def test_settings_and_width_make_every_frame_stale(
    session: ShotSession, fingerprints: PaintFingerprints, fresh: dict[int, str]
) -> None:
    state = session.state
    assert state.document is not None
    changed = ({"grain": 0.5}, {"strength": 0.9}, {"method": "two-bank"}, {"hold_out": False})
    for settings in (SeamSettings(**each) for each in changed):  # type: ignore[arg-type]
        assert fingerprints.stale(replace(state, seams={"seam": settings}), FRAMES, fresh) == list(FRAMES)
    assert fingerprints.stale(replace(state, seams={"seam": SeamSettings()}), FRAMES, fresh) == []
    wide = edit.replace_shape(state.document, "seam", replace(state.document.shape("seam"), width_px=9.0))
    assert fingerprints.stale(replace(state, document=wide), FRAMES, fresh) == list(FRAMES)


def test_hiding_a_seam_makes_its_paint_stale(
    session: ShotSession, fingerprints: PaintFingerprints, fresh: dict[int, str]
) -> None:
    state = session.state
    assert state.document is not None
    hidden = edit.set_visible(state.document, "seam", [1003], False)
    assert fingerprints.stale(replace(state, document=hidden), FRAMES, fresh) == [1003]


def test_touch_up_makes_its_frame_stale_where_no_seam_is_seen_too(
    session: ShotSession, fingerprints: PaintFingerprints, fresh: dict[int, str]
) -> None:
    stroke = (Stroke(((20.0, 20.0),), 3, 0),)
    touched = replace(session.state, strokes={1002: stroke})
    assert fingerprints.stale(touched, FRAMES, fresh) == [1002]
    assert touched.document is not None
    hidden = replace(touched, document=edit.set_visible(touched.document, "seam", [1002], False))
    bare = replace(hidden, strokes={})
    assert fingerprints.stale(hidden, FRAMES, fingerprints.of(bare, FRAMES)) == [1002]
    assert fingerprints.stale(bare, FRAMES, fingerprints.of(hidden, FRAMES)) == [1002]


def test_a_job_that_was_cut_off_leaves_its_frames_stale(session: ShotSession) -> None:
    kept: list[dict[int, str]] = []
    painting, state = Painting(lambda painted: kept.append(dict(painted))), session.state
    painting.note(FRAMES, state)
    assert painting.stale(state, FRAMES) == []
    painting.begin([1001, 1002], state)
    painting.take_frame(1001)
    assert painting.stale(state, FRAMES) == [1002]
    assert set(kept[-1]) == set(FRAMES) - {1001, 1002}  # a program killed now relies on neither
    painting.end()
    assert set(kept[-1]) == set(FRAMES) - {1002}


def test_a_run_that_is_stopped_leaves_only_what_it_painted_stale(session: ShotSession) -> None:
    painting, state = session.painting, session.state
    painting.note(FRAMES, state)
    painting.suspend()
    assert session.stale_frames() == []
    painting.forget([1005])
    assert session.stale_frames() == [1005]


def test_what_is_undone_while_a_run_paints_makes_its_frames_stale(
    session: ShotSession, out: Path, tmp_path: Path
) -> None:
    session.start_project(tmp_path / "shot.rotopaint", results=read_run_results(out))
    session.edits.push("seam settings", replace(session.state, seams={"seam": SeamSettings(grain=0.2)}))
    session.prepare_run()
    session.painting.suspend()
    session.edits.undo()  # the run goes on painting with a grain of 0.2
    session.take_run(read_run_results(out))
    assert session.state.seam("seam").grain != 0.2
    assert session.stale_frames() == list(FRAMES)
    session.close()


def test_the_jobs_are_command_lines(session: ShotSession) -> None:
    choice, preferences = PlateChoice("p", "1001-1006", "sRGB"), Preferences(threads=2, device="cpu")
    words = run_command(session, choice, "pip", preferences, run_frames(session, PlateChoice("p", "1001-1003")))
    assert "--resume" not in words  # nothing to go on from
    for pair in (("--crop", "auto"), ("--model", "pip"), ("--frames", "1001-1003"), ("--colourspace", "sRGB")):
        assert words[words.index(pair[0]) + 1] == pair[1]
    assert words[words.index("--threads") + 1] == "2"
    assert words[words.index("--device") + 1] == "cpu"
    session.seams.set({"seam": SeamSettings(grain=0.25)})
    words = clean_command(session, choice, None, preferences, [1001, 1002, 1005], patch=True)
    assert words[words.index("--frames") + 1] == "1001-1002,1005"
    assert "--patch" in words
    settings = Path(words[words.index("--settings") + 1]).read_text()
    assert '"grain": 0.25' in settings
    assert '"hold_out": true' in settings
