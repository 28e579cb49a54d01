"""Whose a folder is: only our own files are replaced or removed, of one plate and one job, and never through a link."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.cli.shared import fill_named
from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document as roto_json
from rotopaint_ai.jobs import Cancel, Event, RunJob
from rotopaint_ai.pipeline.out_folder import Files, FolderClaim, Stamp, claim_folder, frames_not_as_written
from rotopaint_ai.pipeline.paint_job import CleanJob, paint_clean, paint_mattes
from rotopaint_ai.pipeline.painter import ExternalMattes
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.plates import open_plate
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

WIDTH, HEIGHT = 64, 48
SEAM = RotoShape("nose", False, "seam", {1: Key((ControlPoint(8, 20, 0, 0, 0, 0), ControlPoint(56, 20, 0, 0, 0, 0)))})
SHAPES = RotoDocument(WIDTH, HEIGHT, 1, 2, shapes=(SEAM,))


def make_plate(folder: Path, seed: int = 0, name: str = "plate") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for frame in (1, 2):
        pixels = np.random.default_rng(10 * seed + frame).integers(90, 160, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{name}.{frame:04d}.png"), pixels)
    return str(folder / f"{name}.####.png")


def clean(plates: str, out: Path, *, patch: bool = False, overwrite: bool = False, mattes: str | None = None) -> None:
    with open_plate(plates) as plate:
        lent = None if mattes is None else ExternalMattes.open(mattes, plate)
        job = CleanJob(out, SHAPES, patch=patch, overwrite=overwrite, mattes=lent)
        assert paint_clean(plate, job, threads=1, sink=lambda _: None, cancel=Cancel()).done == (1, 2)


def matte(out: Path, document: RotoDocument = SHAPES, *, overwrite: bool = False) -> None:
    paint_mattes(
        document,
        out,
        name="shapes",
        frames=None,
        threads=1,
        sink=lambda _: None,
        cancel=Cancel(),
        overwrite=overwrite,
    )


@pytest.mark.parametrize("work", [lambda plates, out: clean(plates, out), lambda plates, out: matte(out)])
def test_files_of_somebody_else_are_not_replaced_unless_asked(
    tmp_path: Path, work: Callable[[str, Path], None]
) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    for name in ("clean/plate.0002.png", "matte/nose.0002.exr"):
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text("painted by hand")
    with pytest.raises(UsageError, match=r"0002.*not written by RotoPaint.*--overwrite"):
        work(plates, out)
    assert {path.read_text() for path in out.rglob("*.0002.*")} == {"painted by hand"}
    assert not list(out.rglob("*.0001.*"))


@pytest.mark.parametrize(("frames", "said"), [((1,), r"plate\.0001\.png: not"), ((1, 2), r"0001\.png and 1 more: not")])
def test_as_many_files_are_counted_as_stand_in_the_way(tmp_path: Path, frames: tuple[int, ...], said: str) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    (out / "clean").mkdir(parents=True)
    for frame in frames:
        (out / f"clean/plate.{frame:04d}.png").write_text("painted by hand")
    with pytest.raises(UsageError, match=said):
        clean(plates, out)


def test_one_file_of_a_frame_that_was_changed_is_enough(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    stamps: dict[str, Stamp | None] = {}
    for name in ("a", "b", "c"):
        (tmp_path / f"clean/{name}").write_bytes(b"12345")
        stamps[f"clean/{name}"] = Stamp.of(tmp_path / f"clean/{name}")
    assert frames_not_as_written(tmp_path, {3: stamps, 2: {}}) == []
    (tmp_path / "clean/b").write_bytes(b"123456")
    assert frames_not_as_written(tmp_path, {3: stamps, 1: {"clean/a": stamps["clean/a"]}}) == [3]


@pytest.mark.parametrize("size", [5, (1 << 20) + 3])
def test_what_a_folder_says_of_itself_is_read_for_good(tmp_path: Path, size: int) -> None:
    """Pins the format, its version, and the sample hash of the plate: size, first and last megabyte."""
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    data = bytes(range(256)) * (size // 256 + 1)
    with open_plate(plates) as plate:
        plate.path_of(1).write_bytes(data[:size])
        with claim_folder(FolderClaim(out, [], plate)):
            pass
    note = json.loads((out / ".rotopaint/folder.json").read_text())
    assert (note["format"], note["version"], note["files"]) == ("rotopaint-folder", 1, [])
    first, last = data[: min(size, 1 << 20)], data[:size][-(1 << 20) :]
    assert note["plate"]["sample"] == hashlib.sha256(f"{size}\n".encode() + first + last).hexdigest()


@pytest.mark.parametrize(
    "damage",
    [
        {"files": [1, 2]},
        {"files": 3},
        {"files": [["clean", "plate", ".png", "1001-x", 4]]},
        {"files": [["clean", "plate", ".png", "1001", "4"]]},
        {"files": [["clean", "plate", ".png", "1001", 10**12]]},
        {"files": [["clean", "plate", ".png", "1001"]]},
        {"plate": {"size": 3}},
        {"plate": {"size": [64]}},
        {"plate": {"sample": "0", "place": "/", "frame": [1]}},
        {"plate": "plate"},
        {"job": 5},
        {"version": 2},
        {"version": "new"},
    ],
)
def test_a_damaged_record_of_a_folder_is_refused_in_one_line(tmp_path: Path, damage: dict[str, object]) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    clean(plates, out)
    path = out / ".rotopaint/folder.json"
    note = json.loads(path.read_text())
    path.write_text(json.dumps({**note, **damage}))
    with pytest.raises(UsageError, match=r"folder\.json: cannot be read \(.*\); remove it, and add --overwrite"):
        clean(plates, out)
    path.write_text(json.dumps(note))
    clean(plates, out)


def test_a_deeply_nested_record_of_a_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / ".rotopaint/folder.json"
    path.parent.mkdir()
    path.write_text("[" * 200_000)
    with pytest.raises(UsageError, match="cannot be read"):
        matte(tmp_path)


def test_what_killed_processes_left_is_removed_by_the_next_that_writes_there(tmp_path: Path) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    folders = ("clean", "patch", "matte", ".rotopaint")
    for folder in folders:
        (out / folder).mkdir(parents=True)
        for name in (".plate.0001.0123abcd.part.png", ".plate.part.png"):
            (out / folder / name).write_text("half")
    (out / "clean/.plate.0002.0123abcd.part.png").mkdir()

    def torn() -> set[str]:
        return {folder for folder in folders if (out / folder / ".plate.0001.0123abcd.part.png").exists()}

    clean(plates, out)
    assert torn() == {"patch", "matte"}
    with claim_folder(FolderClaim(out, [Files("patch", "plate", ".exr", frozenset([1]))])):
        assert torn() == {"matte"}
    matte(out)
    assert torn() == set()
    assert all((out / folder / ".plate.part.png").read_text() == "half" for folder in folders)


def test_a_file_is_no_folder_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes.txt: is a file, or lies in one; wanted a folder"):
        clean(make_plate(tmp_path / "plates"), tmp_path / "notes.txt")


def test_own_files_are_replaced_and_others_stay(tmp_path: Path) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    clean(plates, out)
    (out / "clean/plate.0003.png").write_text("somebody's")
    clean(plates, out)
    assert (out / "clean/plate.0003.png").read_text() == "somebody's"
    (out / "clean/other.0001.png").write_text("somebody's")
    clean(plates, out, overwrite=True)
    assert (out / "clean/other.0001.png").read_text() == "somebody's"


def test_a_folder_knows_its_plate_also_after_a_move(tmp_path: Path) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    clean(plates, out)
    before = (out / "clean/plate.0001.png").read_bytes()
    other = make_plate(tmp_path / "other", seed=1)
    with pytest.raises(UsageError, match=r"belongs to the plate .*plates.*other.*--overwrite"):
        clean(other, out)
    assert (out / "clean/plate.0001.png").read_bytes() == before
    shutil.move(tmp_path / "plates", tmp_path / "moved")
    clean(str(tmp_path / "moved/plate.####.png"), out)
    clean(other, out, overwrite=True)
    assert (out / "clean/plate.0001.png").read_bytes() != before


def test_mattes_of_another_size_do_not_join_a_plates_folder(tmp_path: Path) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    clean(plates, out)
    matte(out)
    with pytest.raises(UsageError, match="64 x 48, not 32 x 48"):
        matte(out, RotoDocument(32, HEIGHT, 1, 2, shapes=(SEAM,)))


def test_sources_are_never_written_over(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for folder, asks in (("clean", {}), ("patch", {"patch": True})):
        plates = make_plate(out / folder, name="a")
        with pytest.raises(UsageError, match="itself lies in"):
            clean(plates, out, overwrite=True, **asks)  # type: ignore[arg-type]
    plates = make_plate(tmp_path / "plates")
    with pytest.raises(UsageError, match="itself lies in"):
        clean(plates, out, mattes=make_plate(out / "clean", name="lent"))
    with pytest.raises(UsageError, match="itself lies in"):
        clean(plates, tmp_path / "plates", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "plates").iterdir()) == ["plate.0001.png", "plate.0002.png"]


def test_a_link_among_the_plates_does_not_hide_where_they_lie(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plates = make_plate(tmp_path / "plates")
    (out / "clean").mkdir(parents=True)
    second = tmp_path / "plates/plate.0002.png"
    shutil.move(second, out / "clean/plate.0002.png")
    second.symlink_to(out / "clean/plate.0002.png")
    with pytest.raises(UsageError, match="itself lies in"):
        clean(plates, out, overwrite=True)


@pytest.mark.parametrize("folder", [".rotopaint", "clean"])
def test_nothing_is_written_through_a_link(tmp_path: Path, folder: str) -> None:
    plates, out, target = make_plate(tmp_path / "plates"), tmp_path / "out", tmp_path / "elsewhere"
    target.mkdir()
    out.mkdir()
    (out / folder).symlink_to(target)
    with pytest.raises(UsageError, match="is a symbolic link"):
        clean(plates, out, overwrite=True)
    assert not list(target.iterdir())


@pytest.mark.parametrize("name", ["lock", "errors.txt", "frames.journal"])
def test_no_file_of_ours_may_be_a_link(tmp_path: Path, name: str) -> None:
    plates, out, target = make_plate(tmp_path / "plates"), tmp_path / "out", tmp_path / "elsewhere"
    target.write_text("somebody's")
    (out / ".rotopaint").mkdir(parents=True)
    (out / ".rotopaint" / name).symlink_to(target)
    with pytest.raises(UsageError, match=f"{name}: is a symbolic link"):
        clean(plates, out, overwrite=True)
    assert target.read_text() == "somebody's"


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes among the files")
@pytest.mark.parametrize("name", ["lock", "folder.json", "job.json", "frames.journal"])
def test_a_pipe_among_our_files_is_not_waited_for(tmp_path: Path, name: str) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    (out / ".rotopaint").mkdir(parents=True)
    os.mkfifo(out / ".rotopaint" / name)
    with pytest.raises(UsageError, match=f"{name}: is no file, and one of ours goes there"):
        clean(plates, out, overwrite=True)


def test_a_folder_in_a_files_place_is_noticed_before_the_work(tmp_path: Path) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    (out / "clean" / "plate.0002.png").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"plate\.0002\.png: is no file, and one of ours goes there"):
        clean(plates, out)
    assert [path.name for path in (out / "clean").iterdir()] == ["plate.0002.png"]


@pytest.mark.parametrize("folder", ["clean", ".rotopaint"])
def test_a_file_in_a_folders_place_is_noticed_before_the_work(tmp_path: Path, folder: str) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"
    out.mkdir()
    (out / folder).write_text("somebody's")
    with pytest.raises(UsageError, match=f"{folder}: is a file, or lies in one; wanted a folder"):
        clean(plates, out, overwrite=True)
    assert (out / folder).read_text() == "somebody's"


def _replace_by_as_long(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(bytes(path.stat().st_size))
        os.utime(path, (path.stat().st_mtime + 60,) * 2)


def _cut_off(folder: Path) -> None:
    for path in folder.iterdir():
        os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("folder", ["clean", "matte"])
@pytest.mark.parametrize("harm", [shutil.rmtree, _cut_off, _replace_by_as_long])
def test_frames_whose_files_are_not_as_they_were_written_are_not_done(
    tmp_path: Path, folder: str, harm: Callable[[Path], None]
) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"

    def remove(event: Event) -> None:
        if event.kind == "frame" and event.facts["frame"] == 1:
            with suppress(OSError):  # the next frame may be being written
                harm(out / folder)

    if folder == "clean":
        with open_plate(plates) as plate:
            painted = paint_clean(plate, CleanJob(out, SHAPES), threads=1, sink=remove, cancel=Cancel())
    else:
        painted = paint_mattes(SHAPES, out, name="s", frames=None, threads=1, sink=remove, cancel=Cancel())
    assert 1 in painted.failed
    assert "or not those that were written" in painted.failed[1]
    assert not set(painted.done) & set(painted.failed)


def test_removing_a_frames_folder_fails_that_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def removed(source: Path, target: Path) -> None:
        if target.name == "all.0002.exr":
            shutil.rmtree(target.parent)
        real(source, target)

    monkeypatch.setattr(os, "replace", removed)
    painted = paint_mattes(
        SHAPES, tmp_path / "out", name="s", frames=None, threads=1, sink=lambda _: None, cancel=Cancel()
    )
    assert "its folder was removed while it was written" in painted.failed[2]
    assert 1 in painted.failed  # its files went with the folder


def test_clean_neither_waits_for_nor_joins_a_run(tmp_path: Path) -> None:
    plates, out = make_plate(tmp_path / "plates"), tmp_path / "out"

    def start_another(_: object) -> None:
        with pytest.raises(UsageError, match="another run is writing here"):
            clean(plates, out)

    with open_plate(plates) as plate:
        paint_clean(plate, CleanJob(out, SHAPES), threads=1, sink=start_another, cancel=Cancel())


def test_a_run_leaves_what_is_not_its_own(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    def job(crop: str, **more: bool) -> RunJob:
        return RunJob(plates, str(tmp_path), (crop,), str(pack), frames="1001-1002", clean=False, **more)  # type: ignore[arg-type]

    holiday = tmp_path / "report/img/holiday.jpg"
    holiday.parent.mkdir(parents=True)
    holiday.write_text("somebody's")
    (tmp_path / "shapes.nk").write_text("weeks of work")
    crop = puppet.crop_text()
    with pytest.raises(UsageError, match=r"shapes\.nk: not written by RotoPaint"):
        run(job(crop), lambda _: None, Cancel())
    (tmp_path / "shapes.nk").rename(tmp_path / "mine.nk")
    run(job(crop), lambda _: None, Cancel())
    run(job(crop), lambda _: None, Cancel())
    assert holiday.read_text() == "somebody's"
    with pytest.raises(UsageError, match=r"belongs to a job with crops .*this one has 40,12,90,90"):
        run(job("40,12,90,90"), lambda _: None, Cancel())
    run(job("40,12,90,90", overwrite=True), lambda _: None, Cancel())
    assert holiday.read_text() == "somebody's"


def test_one_frame_that_cannot_be_painted_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rotopaint_ai.pipeline import painter

    write = painter.write_filled

    def broken(path: Path, *rest: object) -> None:
        if "0001" in path.name:
            raise ZeroDivisionError("made up")
        write(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(painter, "write_filled", broken)
    with open_plate(make_plate(tmp_path / "plates")) as plate:
        painted = paint_clean(plate, CleanJob(tmp_path, SHAPES), threads=1, sink=lambda _: None, cancel=Cancel())
    assert painted.done == (2,)
    assert "frame 1: ZeroDivisionError: made up" in painted.failed[1]


def test_a_shorter_run_says_what_it_leaves_beside_it(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", plates, "--crop", puppet.crop_text(), "--out", str(tmp_path), "--model", str(pack), "--export", ""]
    assert main([*words, "--frames", "1001-1006"]) == 0
    assert "earlier run" not in capsys.readouterr().err
    assert main([*words, "--frames", "1001-1002"]) == 0
    assert "also holds frames 1003-1006 of an earlier run" in capsys.readouterr().err
    assert len(list((tmp_path / "clean").iterdir())) == 6


@pytest.mark.parametrize("siblings", [True, False])
def test_one_image_is_one_image(tmp_path: Path, capsys: pytest.CaptureFixture[str], siblings: bool) -> None:
    make_plate(tmp_path / "plates")
    if not siblings:
        (tmp_path / "plates/plate.0001.png").unlink()
    one, shapes = str(tmp_path / "plates/plate.0002.png"), tmp_path / "shapes.roto.json"
    roto_json.write(shapes, SHAPES)
    assert main(["clean", one, str(shapes), "--method", "two-bank", "--out", str(tmp_path / "one")]) == 0
    assert "clean plates of 1 frame " in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "one/clean").iterdir()] == ["plate.0002.png"]


def test_a_range_takes_other_frames_of_the_sequence_of_one_image(tmp_path: Path) -> None:
    make_plate(tmp_path / "plates")
    one, shapes = str(tmp_path / "plates/plate.0002.png"), tmp_path / "shapes.roto.json"
    roto_json.write(shapes, SHAPES)
    assert main(["clean", one, str(shapes), "--frames", "1-2", "--out", str(tmp_path / "all")]) == 0
    assert sorted(path.name for path in (tmp_path / "all/clean").iterdir()) == ["plate.0001.png", "plate.0002.png"]


def test_a_run_of_one_image_is_one_frame(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = next(path for path in sorted(Path(plates).parent.iterdir()) if "1003" in path.name)
    words = ["run", str(one), "--crop", puppet.crop_text(), "--out", str(tmp_path / "out"), "--model", str(pack)]
    assert main([*words, "--export", ""]) == 0
    assert [path.name for path in (tmp_path / "out/clean").iterdir()] == [one.name]
    assert roto_json.read(tmp_path / "out/shapes.roto.json").first_frame == 1003
    assert "warning" not in capsys.readouterr().err


def test_mattes_that_stay_from_another_document_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        roto_json.write(tmp_path / f"{name}.roto.json", SHAPES)
    out = str(tmp_path / "out")
    for name in ("a", "b"):
        assert main(["matte", str(tmp_path / f"{name}.roto.json"), "--out", out]) == 0
        assert "earlier job" not in capsys.readouterr().err
    assert main(["matte", str(tmp_path / "b.roto.json"), "--frames", "1", "--out", out]) == 0
    assert "frames 2 are of an earlier job, and stay as they are" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "", "--out", "o"],
        ["matte", "a.roto.json", "--out", " "],
        ["mine", "", "--out", "o"],
        ["train", "", "--out", "o"],
        ["evaluate", "", "d"],
        ["batch", ""],
    ],
)
def test_an_unset_variable_is_no_name(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "is a variable unset?" in capsys.readouterr().err


def test_a_fill_that_was_removed_is_replaced_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert [fill_named(name) for name in ("auto", "two-bank", "temporal")] == ["auto", "two-bank", "auto"]
    assert capsys.readouterr().err == "--method temporal: was removed, auto paints instead\n"
