"""Clean plates from finished shapes: patches, lent mattes, settings of each seam, frames that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.jobs import Cancel, Event
from rotopaint_ai.pipeline.paint_job import CleanJob, PaintedFrames, _paint_frames, paint_clean, paint_mattes
from rotopaint_ai.pipeline.painter import NOT_PAINTED, ExternalMattes
from rotopaint_ai.plates import exr_writer, open_plate
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.seams.paint_settings import Paint, PaintTable
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

WIDTH, HEIGHT = 96, 64
FRAMES = range(1001, 1005)
GAP = 1.2


def _seam(name: str, y: float) -> RotoShape:
    points = tuple(ControlPoint(x, y, -8.0, 0.0, 8.0, 0.0) for x in (12.0, 48.0, 84.0))
    return RotoShape(name, False, "seam", {1001: Key(points)}, width_px=7.0)


DOCUMENT = RotoDocument(WIDTH, HEIGHT, 1001, 1004, shapes=(_seam("upper", 20.0), _seam("lower", 44.0)))


def _picture(frame: int) -> np.ndarray:
    """Smooth skin with two dark grooves; new grain in 1003 and 1004, and 1002 repeats 1001. 16-bit codes."""
    rng = np.random.default_rng(1001 if frame == 1002 else frame)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    tone = 0.5 + 0.1 * np.sin(columns / 30.0) + 0.005 * rng.standard_normal((HEIGHT, WIDTH))
    for y in (20.0, 44.0):
        reach = (columns > 12) & (columns < 84)
        tone = tone * (1 - 0.6 * reach * np.exp(-0.5 * ((rows + 0.5 - y) / GAP) ** 2))
    return np.rint(65535 * np.clip(tone[..., None] * (0.7, 0.85, 1.0), 0, 1)).astype(np.uint16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("plates")
    for frame in FRAMES:
        cv2.imwrite(str(at / f"plate.{frame}.png"), _picture(frame))
    return at


@pytest.fixture
def plate(folder: Path) -> Plate:
    return open_plate(str(folder / "plate.####.png"))


def _clean(plate: Plate, job: CleanJob) -> tuple[PaintedFrames, list[Event]]:
    events: list[Event] = []
    return paint_clean(plate, job, threads=2, sink=events.append, cancel=Cancel()), events


def _light(path: Path) -> np.ndarray:
    with open_plate(str(path)) as plate:
        frame = plate.read(int(path.name.split(".")[1]))
        whole = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        x, y = frame.origin
        whole[y : y + frame.rgb.shape[0], x : x + frame.rgb.shape[1]] = frame.rgb
        return whole


def _alpha(path: Path) -> np.ndarray:
    import OpenImageIO as oiio

    image = oiio.ImageBuf(str(path))
    whole = np.zeros((HEIGHT, WIDTH), np.float32)
    at, pixels = image.roi, image.get_pixels(oiio.FLOAT)
    whole[at.ybegin : at.yend, at.xbegin : at.xend] = pixels[..., 3]
    return whole


@pytest.mark.parametrize("strengths", [(1.0, 1.0), (1.0, 0.25)])
def test_the_patch_over_the_plate_is_the_clean_plate(
    plate: Plate, folder: Path, tmp_path: Path, strengths: tuple[float, float]
) -> None:
    paints = PaintTable(by_name={"upper": Paint(strength=strengths[0]), "lower": Paint(strength=strengths[1])})
    _clean(plate, CleanJob(tmp_path, DOCUMENT, paints=paints, frames="1003", patch=True))
    patch, alpha = _light(tmp_path / "patch/plate.1003.exr"), _alpha(tmp_path / "patch/plate.1003.exr")
    before, clean = _light(folder / "plate.1003.png"), _light(tmp_path / "clean/plate.1003.png")
    merged = before * (1 - alpha[..., None]) + patch
    assert np.abs(merged - clean).max() < 1e-4  # the clean plate's 16-bit steps
    assert np.array_equal(merged[alpha == 0], before[alpha == 0])
    assert alpha[44, 48] == pytest.approx(strengths[1], abs=0.01)
    assert not patch[alpha == 0].any()


def test_strength_nought_leaves_a_seam_and_grain_nought_smooths_it(plate: Plate, tmp_path: Path) -> None:
    paints = PaintTable(by_name={"upper": Paint(strength=0.0), "lower": Paint(grain=0.0)})
    _clean(plate, CleanJob(tmp_path / "set", DOCUMENT, paints=paints, frames="1003"))
    _clean(plate, CleanJob(tmp_path / "all", DOCUMENT, frames="1003"))
    before = cv2.imread(str(plate.path_of(1003)), cv2.IMREAD_UNCHANGED)
    one, other = (cv2.imread(str(tmp_path / d / "clean/plate.1003.png"), cv2.IMREAD_UNCHANGED) for d in ("set", "all"))
    assert np.array_equal(one[:32], before[:32])
    rough = [float(np.abs(np.diff(image[43:46, 20:76].astype(float), axis=1)).mean()) for image in (one, other)]
    assert rough[0] < 0.6 * rough[1]


def test_external_mattes_need_no_shapes(plate: Plate, folder: Path, tmp_path: Path) -> None:
    for frame in FRAMES:
        matte = np.zeros((HEIGHT, WIDTH), np.uint8)
        matte[17:24, 12:84] = 255
        cv2.imwrite(str(tmp_path / f"matte.{frame}.png"), matte)
    mattes = ExternalMattes.open(str(tmp_path / "matte.####.png"), plate)
    painted, _ = _clean(plate, CleanJob(tmp_path / "out", None, mattes=mattes, frames="1003-1004"))
    assert painted.done == (1003, 1004)
    places = (plate.path_of(1003), tmp_path / "out/clean/plate.1003.png")
    before, clean = (cv2.imread(str(path), cv2.IMREAD_UNCHANGED).astype(float) for path in places)
    assert np.array_equal(clean[matte == 0], before[matte == 0])
    groove = clean[20, 20:76].mean() / clean[12, 20:76].mean()
    assert before[20, 20:76].mean() / before[12, 20:76].mean() < 0.7
    assert groove == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("suffix", ["png", "exr"])
def test_a_matte_in_alpha_alone_is_painted(plate: Plate, tmp_path: Path, suffix: str) -> None:
    cover = np.zeros((HEIGHT, WIDTH), np.float32)
    cover[17:24, 12:84] = 1.0
    path = tmp_path / f"matte.1003.{suffix}"
    if suffix == "png":
        cv2.imwrite(str(path), np.dstack([np.zeros((HEIGHT, WIDTH, 3)), 255 * cover]).astype(np.uint8))
    else:
        black = np.zeros_like(cover)
        planes = [("R", black), ("G", black), ("B", black), ("depth.Z", black + 900), ("roto.mask", cover)]
        exr_writer.write(path, planes, data_at=(0, 0), display=(0, 0, WIDTH, HEIGHT), pixel_aspect=1.0)
    mattes = ExternalMattes.open(str(tmp_path / f"matte.####.{suffix}"), plate)
    assert np.array_equal(mattes.at(1003).coverage, cover)
    painted, events = _clean(plate, CleanJob(tmp_path / "out", None, mattes=mattes))
    assert painted.done == (1003,)
    assert not [event for event in events if event.kind == "warning"]


def _write_matte(path: Path, cover: np.ndarray, alpha: np.ndarray | None = None) -> None:
    planes = [(name, cover) for name in "RGB"] + ([("A", alpha)] if alpha is not None else [])
    exr_writer.write(path, planes, data_at=(0, 0), display=(0, 0, WIDTH, HEIGHT), pixel_aspect=1.0)


@pytest.mark.parametrize(
    ("name", "layers", "is_taken"),
    [
        ("all", ("seam_bridge", "face_outline"), False),
        ("all", ("seam_bridge", "seam_left"), True),
        ("arm", ("arm", "hand"), True),
    ],
)
def test_a_runs_mattes_of_all_shapes_are_no_seams(
    plate: Plate, tmp_path: Path, name: str, layers: tuple[str, ...], is_taken: bool
) -> None:
    """Painted by them, a whole face would go."""
    channels = ("R", "G", "B", "A", *(f"{layer}.A" for layer in layers))
    spec = OpenImageIO.ImageSpec(WIDTH, HEIGHT, len(channels), "half")
    spec.channelnames = channels
    spec.alpha_channel = 3
    picture = OpenImageIO.ImageBuf(spec)
    assert picture.write(str(tmp_path / f"{name}.1003.exr"))
    if is_taken:
        assert ExternalMattes.open(str(tmp_path / f"{name}.####.exr"), plate).pictures.frames
        return
    with pytest.raises(
        DocumentError, match=r"--mattes all\.####\.exr: covers all shapes of a run, face_outline as well"
    ):
        ExternalMattes.open(str(tmp_path / f"{name}.####.exr"), plate)


@pytest.mark.parametrize("in_alpha", [False, True])
def test_a_floor_in_a_matte_is_no_coverage(plate: Plate, tmp_path: Path, in_alpha: bool) -> None:
    """A floor hides neither the seam's middle line nor a matte in alpha."""
    cover, floor = np.zeros((HEIGHT, WIDTH), np.float32), np.full((HEIGHT, WIDTH), 1e-5, np.float32)
    cover[17:24, 12:84] = 1.0
    _write_matte(tmp_path / "matte.1003.exr", cover)
    low = np.maximum(cover, floor)
    _write_matte(tmp_path / "low.1003.exr", floor if in_alpha else low, low if in_alpha else None)
    for name in ("matte", "low"):
        mattes = ExternalMattes.open(str(tmp_path / f"{name}.####.exr"), plate)
        assert _clean(plate, CleanJob(tmp_path / name, None, mattes=mattes))[0].failed == {}
    places = [plate.path_of(1003), *(tmp_path / name / "clean/plate.1003.png" for name in ("matte", "low"))]
    before, clean, low_clean = (cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in places)
    assert np.array_equal(clean, low_clean)
    assert not np.array_equal(clean, before)


@pytest.mark.parametrize("code", [0, 255])
def test_it_is_said_where_nothing_was_painted(plate: Plate, tmp_path: Path, code: int) -> None:
    for frame in (1003, 1004):
        cv2.imwrite(str(tmp_path / f"matte.{frame}.png"), np.full((HEIGHT, WIDTH), code, np.uint8))
    mattes = ExternalMattes.open(str(tmp_path / "matte.####.png"), plate)
    painted, events = _clean(plate, CleanJob(tmp_path / "out", None, mattes=mattes))
    assert painted == PaintedFrames((1003, 1004), {})
    said = [event.facts["message"] for event in events if event.kind == "warning"]
    assert said == ["matte: is empty or covers all, nothing was painted"]
    assert all(NOT_PAINTED not in event.facts for event in events)


def test_one_painted_frame_is_enough(plate: Plate, tmp_path: Path) -> None:
    cover = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.imwrite(str(tmp_path / "matte.1003.png"), cover)
    cover[17:24, 12:84] = 255
    cv2.imwrite(str(tmp_path / "matte.1004.png"), cover)
    mattes = ExternalMattes.open(str(tmp_path / "matte.####.png"), plate)
    painted, events = _clean(plate, CleanJob(tmp_path / "out", None, mattes=mattes))
    assert painted == PaintedFrames((1003, 1004), {})
    assert not [event for event in events if event.kind == "warning"]


def test_a_seam_without_strength_is_measured_and_warned_of_by_nobody(plate: Plate, tmp_path: Path) -> None:
    paints = PaintTable(Paint(strength=0.0))
    _, events = _clean(plate, CleanJob(tmp_path, DOCUMENT, paints=paints, frames="1003"))
    assert [event.kind for event in events if event.kind == "warning"] == []
    [frame] = [event.facts for event in events if event.kind == "frame"]
    assert frame["seam_after"] == frame["seam_before"] > 1.0


def test_an_alpha_that_is_full_everywhere_is_no_matte(plate: Plate, tmp_path: Path) -> None:
    black, full = (np.full((HEIGHT // 2, WIDTH // 2), value, np.float32) for value in (0.0, 1.0))
    planes = [("R", black), ("G", black), ("B", black), ("A", full)]
    path = tmp_path / "matte.1003.exr"
    exr_writer.write(path, planes, data_at=(0, 0), display=(0, 0, WIDTH, HEIGHT), pixel_aspect=1.0)
    mattes = ExternalMattes.open(str(tmp_path / "matte.####.exr"), plate)
    assert not mattes.at(1003).coverage.any()


def test_mattes_of_another_size_are_refused(plate: Plate, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "matte.1001.png"), np.zeros((8, 8), np.uint8))
    with pytest.raises(DocumentError, match=r"--mattes.*8 x 8.*96 x 64.*plate's format"):
        ExternalMattes.open(str(tmp_path / "matte.####.png"), plate)


def test_shapes_hold_before_and_after_their_keys(plate: Plate, tmp_path: Path) -> None:
    job = CleanJob(tmp_path, replace(DOCUMENT, last_frame=1003), frames="1002-1004,1009")
    painted, events = _clean(plate, job)
    assert painted.done == (1002, 1003, 1004)
    assert painted.failed == {1009: "plate: frame 1009 is not on disk"}
    scores = [event.facts for event in events if event.kind == "frame" and event.facts["frame"] in painted.done]
    assert len(scores) == 3
    assert all(each["seam_after"] < each["seam_before"] for each in scores)
    lines = [event.facts["message"] for event in events if event.kind == "warning"]
    assert lines[0] == "shapes: have frames 1001-1003; at 1004 their first or last key is held"
    assert [part in lines[1] for part in ("1009 are not on disk", "--frames")] == [True, True]
    mattes = paint_mattes(
        DOCUMENT, tmp_path, name="shapes", frames="1004-1005", threads=1, sink=lambda e: None, cancel=Cancel()
    )
    assert (mattes.done, mattes.failed) == ((1004, 1005), {})


def test_one_key_cleans_every_plate(plate: Plate, tmp_path: Path) -> None:
    """A single key is enough, inside or before the range of the plates; shapes that move on other frames are
    refused."""
    still = [replace(s, keys={7: s.keys[s.frames[0]]}, visible={}) for s in DOCUMENT.shapes]
    one = replace(DOCUMENT, shapes=tuple(still), first_frame=7, last_frame=7)
    painted, _ = _clean(plate, CleanJob(tmp_path, one))
    assert (painted.done, painted.failed) == (tuple(FRAMES), {})
    moving = [replace(s, keys={7: s.keys[s.frames[0]], 9: s.keys[s.frames[-1]]}) for s in DOCUMENT.shapes]
    with pytest.raises(UsageError, match="the shapes 7-9; none in common"):
        _clean(plate, CleanJob(tmp_path, replace(one, shapes=tuple(moving), last_frame=9)))


def test_settings_of_a_seam_that_is_not_there_are_refused(plate: Plate, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'nose' is no seam.*upper, lower"):
        _clean(plate, CleanJob(tmp_path, DOCUMENT, paints=PaintTable(by_name={"nose": Paint()})))


def test_the_command_line_takes_mattes_and_patch(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rotopaint_ai.cli import main

    shapes = tmp_path / "shapes.roto.json"
    document.write(shapes, DOCUMENT)
    plates, out = str(folder / "plate.####.png"), str(tmp_path / "out")
    command = ["clean", plates, str(shapes), "--out", out, "--method", "two-bank", "--frames", "1001,1003", "--patch"]
    assert main(command) == 0
    assert len(list((tmp_path / "out/patch").iterdir())) == 2
    capsys.readouterr()
    assert main(["clean", plates, "--out", out]) == 2
    assert "--mattes" in capsys.readouterr().err
    for words, reason in (
        (["--mattes", plates, "--rig", "--only", "upper"], "--only is for mattes drawn from shapes"),
        (["--mattes", plates, "--measure-widths"], "--measure-widths is for mattes drawn from shapes"),
        (["--mattes", plates, "--settings", "s.json"], "--settings is for mattes drawn from shapes"),
        (["--rig", "--measure-widths"], "--measure-widths is for seams"),
    ):
        assert main(["clean", plates, str(shapes), "--out", out, *words]) == 2
        assert reason in capsys.readouterr().err


def test_a_seam_that_something_covers_is_left_alone(tmp_path: Path) -> None:
    """The lower seam is hidden by a striped prop without a groove, whose pixels stay."""
    picture = _picture(1003)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    stripes = (32768 + 24000 * np.sin(rows * 1.1 + columns * 0.4))[..., None].repeat(3, 2)
    picture[34:54] = stripes[34:54].astype(np.uint16)
    picture[40:49] = np.uint16(30000)  # smooth where the seam would run
    cv2.imwrite(str(tmp_path / "plate.1001.png"), picture)
    with open_plate(str(tmp_path / "plate.####.png")) as plate:
        _clean(plate, CleanJob(tmp_path / "out", replace(DOCUMENT, last_frame=1001)))
    clean = cv2.imread(str(tmp_path / "out/clean/plate.1001.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(clean[34:54], picture[34:54])
    assert not np.array_equal(clean[16:24], picture[16:24])


def test_a_frame_whose_pixels_are_no_numbers_fails_alone(tmp_path: Path) -> None:
    import OpenImageIO as oiio

    for frame in FRAMES[:2]:
        pixels = (_picture(frame) / 65535).astype(np.float32)
        pixels[:] = np.nan if frame == FRAMES[0] else pixels
        image = oiio.ImageBuf(oiio.ImageSpec(WIDTH, HEIGHT, 3, oiio.HALF))
        image.set_pixels(oiio.ROI(), pixels)
        image.write(str(tmp_path / f"plate.{frame}.exr"))
    with open_plate(str(tmp_path / "plate.####.exr")) as plate:
        painted, _ = _clean(plate, CleanJob(tmp_path / "out", replace(DOCUMENT, last_frame=FRAMES[1])))
    assert painted.done == (FRAMES[1],)
    assert "NaN or infinite pixels" in painted.failed[FRAMES[0]]
    assert not (tmp_path / f"out/clean/plate.{FRAMES[0]}.exr").exists()


def test_measured_widths_cover_a_seam_whose_shape_is_far_too_thin(plate: Plate, tmp_path: Path) -> None:
    thin = replace(DOCUMENT, shapes=tuple(replace(shape, width_px=1.0) for shape in DOCUMENT.shapes))
    left = []
    for measures in (False, True):
        out = tmp_path / str(measures)
        _clean(plate, CleanJob(out, thin, frames="1003", measures_widths=measures))
        clean = cv2.imread(str(out / "clean/plate.1003.png"), cv2.IMREAD_UNCHANGED).astype(float)
        left.append(1 - clean[18:22, 20:76].mean() / clean[10:13, 20:76].mean())
    assert left[0] > 0.2
    assert left[1] < 0.05


def test_no_more_frames_are_begun_than_threads_paint_and_one() -> None:
    """Finished frames stay in memory until the caller takes them."""
    begun = 0

    def frames() -> Iterator[int]:
        nonlocal begun
        for frame in range(1001, 1013):
            begun += 1
            yield frame

    taken = 0
    for _ in _paint_frames(cast(Any, frames()), lambda frame: {}, 2, Cancel()):
        assert begun - taken <= 3
        taken += 1
    assert taken == 12
