"""A pack fine-tuned on a project's corrected frames, and the project's shot updated with it."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.errors import UsageError
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.jobs import Event
from rotopaint_ai.pipeline.corrected_project import read_corrected_project
from rotopaint_ai.pipeline.teach import read_shot
from rotopaint_ai.project import Project, State
from rotopaint_ai.shapes.bezier import as_array
from rotopaint_ai.shapes.roto import Key, RotoDocument
from rotopaint_ai.training.pack.lesson import DrawnShot, make_lesson
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.shot import train_shot
from rotopaint_ai.training.pack.train import train_pack
from rotopaint_ai.training.trainer.launch import DONE
from small_network import SMALL_NETWORK

TINY = [
    *(*SMALL_NETWORK, "small_size=32", "window=5"),
    *("minutes=null", "batch=4", "eval_every=100", "threads=1", "flip=0", "pose=0", "rotation_deg=5"),
    "augment={occluders: 0, shadow: 0, colour: 0, channels: 0, coarse: 0, tone: 0}",
]
PLACES = np.array([[-14.0, -8.0], [14.0, -8.0], [0.0, 20.0], [0.0, -20.0]])
COLOURS = ((255, 60, 60), (60, 255, 60), (60, 60, 255), (255, 255, 60))
FRAMES = range(1001, 1007)
CORRECTED = (1001, 1003, 1005)
DOWN = 3.0  # px by which this shot's seam lies lower than the pack predicts


def centre(frame: int) -> np.ndarray:
    return np.array([44.0 + 2.5 * (frame - 1001), 50.0 - 1.5 * (frame - 1001)])


def true_marks(frame: int) -> np.ndarray:
    return PLACES + centre(frame)


@pytest.fixture(scope="module")
def plates(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four discs that move across the plate."""
    folder = tmp_path_factory.mktemp("plates")
    for frame in FRAMES:
        picture = np.full((104, 104, 3), 40, np.uint8)
        for point, colour in zip(true_marks(frame), COLOURS):
            x, y = (round(float(v - 0.5) * 16) for v in point)
            cv2.circle(picture, (x, y), 4 * 16, colour[::-1], -1, cv2.LINE_AA, 4)
        cv2.imwrite(str(folder / f"plate.{frame}.png"), picture)
    return str(folder / "plate.####.png")


@pytest.fixture(scope="module")
def pack(faces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack that finds the discs roughly."""
    out = tmp_path_factory.mktemp("packs") / "discs"
    train_pack(
        TrainOptions(
            [faces], out, overrides=[*TINY, "steps=100", "learning_rate=0.004", "ema=0.9", "prior=false"], init="none"
        )
    )
    return out


@pytest.fixture(scope="module")
def corrected(plates: str, pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run, with its seam moved down by hand in three frames."""
    tmp_path = tmp_path_factory.mktemp("shot")
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State()).close()
    words = ["run", plates, "--crop", "1001:18,22,52,56", "--out", str(tmp_path / "out"), "--model", str(pack)]
    assert main([*words, "--no-clean", "--force", "--project", str(path)]) == 0  # a pack of 100 steps is inaccurate
    with closing(Project.open(path)) as opened:
        state = opened.load().state
        opened.append("fix", state, replace(state, document=lowered(state.document, CORRECTED)))
    return path


@pytest.fixture
def project(corrected: Path, tmp_path: Path) -> Path:
    """A copy for one test."""
    return Path(shutil.copy(corrected, tmp_path))


def lowered(document: RotoDocument | None, frames: tuple[int, ...]) -> RotoDocument:
    assert document is not None
    seam = document.shape("seam")
    keys = {f: Key(tuple(p._replace(y=p.y + DOWN) for p in seam.at(f)), "human") for f in frames}
    rest = tuple(shape for shape in document.shapes if shape.name != "seam")
    return replace(document, shapes=(seam.with_keys(dict(sorted({**seam.keys, **keys}.items()))), *rest))


def ends(document: RotoDocument, frame: int) -> np.ndarray:
    """Height of the seam's ends."""
    return as_array(document.shape("seam").at(frame))[[0, -1], 1]


def test_a_lesson_distinguishes_labels_from_predictions(project: Path, pack: Path) -> None:
    shot = read_corrected_project(project)
    assert shot.frames == set(CORRECTED)
    solved = {"seam": {f: Key(shot.document.shape("seam").at(f), "propagated") for f in FRAMES}}
    drawn = DrawnShot(shot.document, solved, {"seam"}, shot.frames)
    with closing(open_models(load_pack(pack), device="cpu", threads=1)) as models:
        reported = list[tuple[int, int]]()
        reading = read_shot(shot.predicted, shot.plate, models, progress=lambda *step: reported.append(step))
        assert reported == sorted(set(reported))
        assert {total for _, total in reported} == {reported[-1][0]}  # to its very end
        lesson = make_lesson(reading, shot.plate, drawn, input_size=64, margin=1.3)
    assert lesson.is_corrected.tolist() == [True, False] * 3
    known = lesson.known.truth.landmarks
    eyes, others = known[:, :2], known[:, 2:]
    assert np.isfinite(eyes[0::2]).all()
    assert np.isnan(eyes[1::2]).all()
    assert np.isfinite(others).all()
    assert np.isfinite(lesson.solved.landmarks).all()
    # picture pixels: uncorrected discs are where their landmarks are
    for picture, marks in zip(lesson.known.pictures, others):
        for (x, y), colour in zip(marks, COLOURS[2:]):
            assert abs(picture[int(y), int(x)].astype(int) - colour).max() < 40
    # a corrected sample's landmark sits on the spline's end, in the picture's pixels
    assert lesson.known.truth.landmarks[0, 0] == pytest.approx(lesson.known.truth.points[0, 0, :2], abs=1e-3)
    training = lesson.training(0.8)
    assert len(training) == 3 * 4 + 3


def test_three_corrected_frames_teach_a_pack_and_the_shot(project: Path, pack: Path, tmp_path: Path) -> None:
    with closing(Project.open(project, write=False)) as opened:
        before = opened.load().state
    out, reported = tmp_path / "taught", list[Event]()
    settings = (*TINY, "steps=120", "learning_rate=0.004")
    report = train_shot(
        TrainOptions([str(project)], out, "shot", overrides=settings, init=str(pack), sink=reported.append)
    )
    assert reported[0].facts == {"stage": "train", "samples": 6, "held_out": 0, "init": "discs"}
    assert report.frames == CORRECTED
    assert report.steps == 120
    (said,) = (event.facts["message"] for event in reported if event.kind == "note")
    assert said.startswith("no head is kept for the character's next shots: the shot has 6 poses; wanted 12 or more")
    taught = load_pack(out)
    assert taught.card["training"]["frames"] == "1001, 1003, 1005"
    assert taught.card["training"]["init"] == "discs"
    with closing(open_models(taught, device="cpu", threads=1)) as models:
        assert before.predicted is not None
        shot = read_corrected_project(project)
        reading = read_shot(before.predicted, shot.plate, models)
        for frame in (1002, 1004, 1006):  # uncorrected frames
            seam = reading.holds[reading.hold_of[frame]].splines["seam"]
            assert seam[[0, 2]].imag == pytest.approx(ends(before.predicted, frame) + DOWN, abs=1.0)
    with closing(Project.open(project)) as opened:
        loaded = opened.load()
        assert [step.label for step in loaded.behind][-1] == "teach"
        after = loaded.state
        assert after.document is not None
        assert before.document is not None
        assert after.predicted is not None
        for frame in FRAMES:  # the prediction from now on; `teach` decides whether it moves
            if frame not in CORRECTED:
                assert after.predicted.shape("seam").at(frame) == after.document.shape("seam").at(frame)
        note = opened.note("taught")
        assert note["pack"] == str(out.absolute())
        assert note["moved"] == report.n_moved
        for frame in CORRECTED:
            assert after.document.shape("seam").keys[frame] == before.document.shape("seam").keys[frame]
        opened.take_back(loaded.behind[-1].number)
        assert opened.load().state == before


def test_a_shot_is_promoted_into_the_characters_pack(
    project: Path, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DONE, "1")  # the command does not restart
    character = tmp_path / "pip"
    shutil.copytree(pack, character)
    was = load_pack(character)
    settings = [word for each in (*TINY, "steps=120", "learning_rate=0.004") for word in ("--set", each)]
    words = ["train", str(project), "--recipe", "shot", "--init", str(character), "--out", str(character), *settings]
    assert main(words) == 0
    promoted, shot = load_pack(character), read_corrected_project(project)
    assert promoted.sheet == was.sheet
    assert promoted.card["training"]["init"] == "discs"
    with closing(open_models(promoted, device="cpu", threads=1)) as models:
        reading = read_shot(shot.predicted, shot.plate, models)
    for frame in (1002, 1004, 1006):  # uncorrected frames
        seam = reading.holds[reading.hold_of[frame]].splines["seam"][[0, 2]]
        # the discs themselves are where a pack without corrections finds them
        assert seam.imag == pytest.approx(true_marks(frame)[:2, 1] + DOWN, abs=2.0)
    before = character.with_name("pip.run") / "before"
    assert (before / "landmarks.onnx").read_bytes() == (pack / "landmarks.onnx").read_bytes()


def test_what_cannot_teach_is_refused_in_one_line(
    project: Path,
    pack: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DONE, "1")  # the command does not restart
    with closing(Project.open(project)) as opened:
        state = opened.load().state
        assert state.predicted is not None
        opened.append("less", state, replace(state, document=lowered(state.predicted, (1001, 1003))))
    with pytest.raises(UsageError, match=r"2 poses are corrected \(frames 1001, 1003\); wanted 3 or more"):
        train_shot(
            TrainOptions([str(project)], tmp_path / "taught", "shot", overrides=(*TINY, "steps=2"), init=str(pack))
        )
    assert not (tmp_path / "taught").exists()
    words = ["train", str(project), "--out", str(tmp_path / "taught")]
    assert main(words) == 2
    assert "is a project; --recipe shot trains on its corrected frames" in capsys.readouterr().err
    assert main(["train", str(tmp_path), "--recipe", "shot", "--out", str(tmp_path / "taught")]) == 2
    assert "wanted one project (*.rotopaint)" in capsys.readouterr().err
