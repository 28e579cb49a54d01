"""Commands: exit codes, one line of complaint, nothing but JSON on stdout with --events."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import event_command
from rotopaint_ai import cli
from rotopaint_ai.cli import main
from rotopaint_ai.cli.shell_words import join_files
from rotopaint_ai.errors import DeviceError, InferenceError
from rotopaint_ai.exchange import formats
from rotopaint_ai.jobs import Event, RunJob, warning
from rotopaint_ai.pipeline import manifest
from rotopaint_ai.watch import Bar, TerseLines

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numpy", "torch", "onnxruntime", "PySide6", "cv2", "OpenImageIO", "PyOpenColorIO", "av", "rich", "yaml")
LOADED = f"""
import json, sys
from rotopaint_ai.cli import main
for words in json.loads(sys.argv[1]):
    code = main(words)
    print("called ", " ".join(words), ": ", code, " ", [name for name in {HEAVY} if name in sys.modules], sep="")
"""


def _python(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False, **more
    )  # type: ignore[call-overload,no-any-return]


def _one_line(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().err.strip()
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_help_of_every_command_loads_nothing_heavy() -> None:
    calls = [["--help"], *([name, "--help"] for name in cli.COMMANDS)]
    done = _python("-c", LOADED, json.dumps(calls))
    shown = [line for line in done.stdout.splitlines() if line.startswith("called ")]
    assert shown == [f"called {' '.join(words)}: 0 []" for words in calls], done.stderr
    for name in cli.COMMANDS:
        assert f"  {name} " in done.stdout.partition("called ")[0]
        assert f"usage: rotopaint {name} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["walk"], "no command 'walk'"),
        (["run"], "the following arguments are required"),
        (["run", "p", "--crop", "1,2,3,4", "--out", "o", "--method", "magic"], "invalid choice"),
        (["run", "/nowhere/p.####.exr", "--crop", "1,2,30,40", "--out", "o"], "/nowhere"),
        (["run", "p", "--crop", "1,2,30,40", "--out", "o", "--threads", "-1"], "--threads -1"),
        (["run", "p", "--crop", "1,2,30,40", "--out", "o", "--threads", "100000"], "up to 256"),
        (["run", "p", "--crop", "1,2,30,40", "--out", "o", "--frames", "x"], "frames 'x'"),
        (["run", "p", "--crop", "1,2,30,40", "--out", "o", "--frames", "1-99999999999"], "at most 100,000"),
        (["run", "p", "--crop", "1,2,30,40", "--out", "o", "--frames", "9" * 5000], "wanted FIRST-LAST"),
        (["matte", "shapes.roto.json", "--out", "o", "--threads", "100000"], "up to 256"),
        (["matte", "/nowhere/shapes.roto.json", "--out", "o"], "shapes.roto.json"),
        (["matte", "shapes.txt", "--out", "o"], "not a shape format"),
        (["convert", "a.roto.json", "b.xyz"], "no shape format"),
        (["convert", "a.nk", "b.svg", "--fps", "nan"], "rotopaint convert: --fps nan: wanted a number above 0"),
        (["convert", "a.nk", "b.svg", "--pixel-aspect", "1e5"], "--pixel-aspect 100000: wanted a number above 0 and"),
        (["evaluate", "nowhere", "/nowhere"], "/nowhere"),
        (["bench", "run", "--plates", "p.####.exr"], "--crop"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert text in _one_line(capsys)
    assert list(tmp_path.iterdir()) == []


JOB = RunJob("a plate.####.exr", "out", ("10,20,30,40",), resume=True)


@pytest.mark.parametrize(
    "job",
    [
        RunJob("p", "o", ("auto",)),
        replace(JOB, crops=("-10,-20,30,40", "1005:-10,20,30,40"), frames="-5--1,3", threads=3),
        replace(JOB, model="a pack", exports=("nuke", "svg"), method="two-bank", device="cpu", colourspace="sRGB"),
        replace(JOB, key_tolerance_px=0.25),
        replace(JOB, clean=False, patch=True, force=True, overwrite=True, resume=False),
        replace(JOB, project="shot.rotopaint", leave_project=True),
    ],
)
def test_the_command_that_a_run_notes_is_the_same_job(job: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command on the report page can be typed again, also for a box over the plate's left edge and frames below
    0."""
    seen = list[RunJob]()

    def take(job: RunJob, *, events: bool) -> int:
        seen.append(job)
        return 0

    monkeypatch.setattr("rotopaint_ai.cli.run.do", take)
    assert main(shlex.split(manifest.run_command(job))[1:]) == 0
    assert seen == [job]


def test_the_panel_is_a_program_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from rotopaint_ai.cli import panel

    monkeypatch.setattr(sys, "argv", ["rotopaint-panel", "--help"])
    assert panel.main() == 0
    assert "usage: rotopaint panel" in capsys.readouterr().out


def test_no_command_shows_help_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rotopaint ")


def test_unexpected_error_is_one_line_with_a_file_that_tells_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rotopaint_ai.cli import convert

    def break_down(arguments: object) -> int:
        raise ZeroDivisionError("made\nup")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(convert, "execute", break_down)
    assert main(["convert", "a", "b"]) == 1
    text = _one_line(capsys)
    assert "ZeroDivisionError: made up" in text
    saved = Path(text.rpartition(" ")[2])
    assert saved.parent == tmp_path
    assert "Traceback" in saved.read_text()
    assert "convert" in saved.read_text()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left on device", "out/x.exr"), 5),
        (InferenceError("landmarks.onnx: could not run"), 2),
        (DeviceError("device cuda: not there"), 2),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_disk_memory_and_interrupt(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rotopaint_ai.cli import convert

    def break_down(arguments: object) -> int:
        raise error

    monkeypatch.setattr(convert, "execute", break_down)
    assert main(["convert", "a", "b"]) == code
    _one_line(capsys)


def test_run_prints_where_to_look(shapes: Path) -> None:
    assert (shapes / "report/index.html").is_file()


def test_events_are_json_lines_and_nothing_else(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    arguments = ["run", plates, "--crop", puppet.crop_text(), "--out", str(tmp_path), "--model", str(pack), "--events"]
    done = _python("-m", "rotopaint_ai", *arguments)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(event["version"] == 1 for event in events)
    assert [event["event"] for event in events] == [
        "started",
        *["tracked", "progress"] * 4,
        *["frame", "progress"] * 4,
        "finished",
    ]
    assert done.stderr == ""


def test_failed_frame_gives_code_3(
    puppet: ModuleType, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1005))
    (tmp_path / "plates/plate.1003.exr").write_bytes(b"not a picture")
    arguments = ["run", pattern, "--crop", puppet.crop_text(), "--out", str(tmp_path / "out"), "--model", str(pack)]
    assert main(arguments) == 3
    assert "plate.1003.exr" in capsys.readouterr().err


def test_altered_pack_is_refused(
    puppet: ModuleType, plates: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = puppet.make_pack(tmp_path / "pack")
    (pack / "shapes.onnx").write_bytes((pack / "shapes.onnx").read_bytes() + b" ")
    arguments = ["run", plates, "--crop", puppet.crop_text(), "--out", str(tmp_path / "out"), "--model", str(pack)]
    assert main(arguments) == 2
    assert "shapes.onnx" in _one_line(capsys)
    assert not (tmp_path / "out").exists()


def _waiting_at(n: int, arguments: list[str]) -> subprocess.Popen[str]:
    """A run that waits at its n-th event until it gets a line; its first n lines have been read."""
    process = subprocess.Popen(
        event_command.command([*arguments, "--events"], at=f"n == {n}", deed=event_command.WAIT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert process.stdout is not None
    assert all(process.stdout.readline() for _ in range(n))
    return process


def _long_run(puppet: ModuleType, pack: Path, folder: Path) -> list[str]:
    pattern = puppet.make_plates(folder / "plates", range(1001, 1061))
    return ["run", pattern, "--crop", puppet.crop_text(), "--out", str(folder / "out"), "--model", str(pack)]


def test_interrupt_stops_cleanly_and_resume_goes_on(puppet: ModuleType, pack: Path, tmp_path: Path) -> None:
    arguments = _long_run(puppet, pack, tmp_path)
    process = _waiting_at(4, arguments)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate("\n")
    assert process.returncode == 130
    assert json.loads(rest.splitlines()[-1])["event"] == "cancelled"
    assert errors.count("\n") == 1
    assert "--resume" in errors
    assert main([*arguments, "--resume"]) == 0
    assert len(list((tmp_path / "out/clean").iterdir())) == 60


@pytest.mark.parametrize("command", ["clean", "matte"])
def test_while_arguments_are_read_the_stop_signal_ends_the_process(
    plates: str, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """An argument may be a pipe that nobody writes to, where a stop request would never be checked."""
    read, seen = formats.read, []

    def look(*given: object, **more: object) -> object:
        seen.append(signal.getsignal(signal.SIGTERM))
        return read(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(formats, "read", look)
    document = str(shapes / "shapes.roto.json")
    assert main([command, *([plates] if command == "clean" else []), document, "--out", str(tmp_path)]) == 0
    assert seen == [signal.SIG_DFL]


def test_reader_of_events_that_goes_away_stops_the_run(puppet: ModuleType, pack: Path, tmp_path: Path) -> None:
    process = _waiting_at(1, _long_run(puppet, pack, tmp_path))
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None  # for `communicate`
    _, errors = process.communicate("\n")
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_matte_writes_what_run_wrote(shapes: Path, tmp_path: Path) -> None:
    assert main(["matte", str(shapes / "shapes.roto.json"), "--out", str(tmp_path), "--frames", "1002-1003"]) == 0
    names = sorted(path.name for path in (tmp_path / "matte").iterdir())
    assert names == [f"{name}.{frame}.exr" for name in ("all", "outline", "seam_middle") for frame in (1002, 1003)]
    assert (tmp_path / "matte/outline.1002.exr").read_bytes() == (shapes / "matte/outline.1002.exr").read_bytes()


def test_a_document_without_shapes_has_no_matte(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((shapes / "shapes.roto.json").read_text(encoding="utf-8"))
    source = tmp_path / "in.roto.json"
    source.write_text(json.dumps({**document, "shapes": []}), encoding="utf-8")
    assert main(["matte", str(source), "--out", str(tmp_path / "out"), "--frames", "1002"]) == 2
    assert "has no shapes, so there is no matte to write" in capsys.readouterr().err


def test_mattes_of_any_name_are_written_once_each(shapes: Path, tmp_path: Path) -> None:
    """Artists' names: two words, two that differ only in case, and the name of the file with all mattes."""
    document = json.loads((shapes / "shapes.roto.json").read_text(encoding="utf-8"))
    first = document["shapes"][0]
    names = ["brow left", "Brow_Left", "all", "../up", "a/b"]
    document["shapes"] = [{**first, "name": name} for name in names]
    source = tmp_path / "in.roto.json"
    source.write_text(json.dumps(document), encoding="utf-8")
    assert main(["matte", str(source), "--out", str(tmp_path / "out"), "--frames", "1002"]) == 0
    files = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "out").rglob("*.exr"))
    wanted = ["___up", "a_b", "all", "all_2", "Brow_Left_2", "brow_left"]
    assert files == sorted(f"out/matte/{name}.1002.exr" for name in wanted)


def test_clean_paints_the_seam_away(plates: str, shapes: Path, tmp_path: Path) -> None:
    assert main(["clean", plates, str(shapes / "shapes.roto.json"), "--out", str(tmp_path)]) == 0
    frames = sorted(path.name for path in (tmp_path / "clean").iterdir())
    assert frames == [f"plate.{frame}.exr" for frame in range(1001, 1005)]
    assert (tmp_path / "clean/plate.1001.exr").read_bytes() != Path(plates.replace("####", "1001")).read_bytes()


def test_clean_names_missing_frames_and_gives_code_3(
    puppet: ModuleType, shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1005))
    (tmp_path / "plates/plate.1003.exr").unlink()
    assert main(["clean", pattern, str(shapes / "shapes.roto.json"), "--out", str(tmp_path / "out")]) == 3
    assert "1003" in capsys.readouterr().err


def test_clean_refuses_shapes_of_another_size(
    puppet: ModuleType, shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1002), 96, 60)
    assert main(["clean", pattern, str(shapes / "shapes.roto.json"), "--out", str(tmp_path / "out")]) == 2
    reported = _one_line(capsys)
    assert "192 x 120" in reported
    assert "take the shapes of this plate" in reported
    size = ["--width", "96", "--height", "60", "--overwrite"]
    assert main(["clean", pattern, str(shapes / "shapes.roto.json"), "--out", str(tmp_path / "out"), *size]) in (0, 3)
    assert "made for 192 x 120, read as 96 x 60" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "clean"])
def test_plates_are_never_written_over(
    puppet: ModuleType,
    pack: Path,
    shapes: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    """The clean plates of one pass are the plates of the next, with the same --out."""
    pattern = puppet.make_plates(tmp_path / "clean", range(1001, 1003))
    before = {path.name: path.read_bytes() for path in (tmp_path / "clean").iterdir()}
    (tmp_path / "link").symlink_to(tmp_path)
    words = {
        "run": ["run", pattern, "--crop", puppet.crop_text(), "--model", str(pack)],
        "clean": ["clean", pattern, str(shapes / "shapes.roto.json")],
    }
    assert main([*words[command], "--out", str(tmp_path / "link")]) == 2
    assert "choose another" in _one_line(capsys)
    assert {path.name: path.read_bytes() for path in (tmp_path / "clean").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "link"]


def test_convert_tells_what_was_lost(shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "shapes.nk"
    assert main(["convert", str(shapes / "shapes.roto.json"), str(target), "--offset", "10"]) == 0
    said = capsys.readouterr()
    assert "2 shapes" in said.out
    assert "landmarks" in said.err
    assert target.is_file()


NASTY = "a\nwarning: b\x1b[31m\u202e[/bold]"
SHOWN = "a warning: b\\x1b[31m\\u202e[/bold]"


def test_an_option_may_stand_between_two_arguments(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "shapes.nk"
    assert main(["convert", str(shapes / "shapes.roto.json"), "--offset", "3", str(target)]) == 0
    assert target.is_file()
    capsys.readouterr()
    for words, reason in (([str(shapes), "b", "c", "d"], "unrecognized arguments: c d"), (["--offset", "3"], "IN")):
        assert main(["convert", *words]) == 2
        assert reason in capsys.readouterr().err
    assert main(["bench", "run", "--nonsense"]) == 2
    assert "unrecognized arguments: --nonsense" in capsys.readouterr().err


def test_control_characters_in_names_are_escaped(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((shapes / "shapes.roto.json").read_text(encoding="utf-8"))
    for shape in content["shapes"]:
        shape["name"] = NASTY + shape["name"]
    source = tmp_path / "named.roto.json"
    source.write_text(json.dumps(content), encoding="utf-8")
    assert main(["convert", str(source), str(tmp_path / "named.nk")]) == 0
    reported = "".join(capsys.readouterr())
    assert SHOWN in reported
    assert all(line.isprintable() for line in reported.splitlines())
    assert all(line.startswith(("warning: ", str(tmp_path))) for line in reported.splitlines())
    assert main(["convert", str(tmp_path / NASTY), "x.svg"]) == 2
    assert _one_line(capsys).isprintable()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_plate_of_any_name_is_reported_in_one_line(is_terminal: bool) -> None:
    stream = io.StringIO()
    sink = Bar(stream) if is_terminal else TerseLines(stream)
    if isinstance(sink, Bar):
        sink._progress.console._force_terminal = True
    sink(Event("started", {"name": NASTY, "total": 3, "done": 0}))
    sink(warning(f"{NASTY}: 3 frames"))
    if isinstance(sink, Bar):
        sink._progress.refresh()
    sink(Event("finished", {}))
    assert SHOWN in stream.getvalue()
    assert "\nwarning: b" not in stream.getvalue()
    assert "b\x1b[31m" not in stream.getvalue()


def test_demo_runs_the_sample(
    puppet: ModuleType, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tmp_path / "models/sample"
    puppet.make_plates(sample, range(1001, 1003))
    x, y, width, height = (float(number) for number in puppet.crop_text().split(","))
    (sample / "crop.json").write_text(json.dumps({"crop": [x, y, width, height]}))
    monkeypatch.setenv("ROTOPAINT_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    shown: list[tuple[str | None, Path | None]] = []
    monkeypatch.setattr("rotopaint_ai.cli.demo.load_window", lambda: lambda *given: shown.append(given) or 0)
    assert main(["demo", "--model", str(pack), "--panel"]) == 0
    assert shown == [(str(sample), Path("rotopaint_demo"))]
    assert (tmp_path / "rotopaint_demo/report/index.html").is_file()
    reported = capsys.readouterr().out
    assert "report/index.html" in reported
    pictures = json.loads(Path("rotopaint_demo/run.json").read_text())["pictures"]
    opened = [f"{each['frame']} ({each['worst_shape']})" for each in pictures if each["worst"]]
    assert "(seam_" in opened[0]
    assert f"2 frames done; look first at {', '.join(opened)}; open" in reported


def test_training_without_torch_names_the_line_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    assert main(["train", "data", "--out", "pack"]) == 2
    assert "pip install 'rotopaint-ai[train]'" in _one_line(capsys)


def test_bench_run_gives_a_ratio(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    arguments = ["bench", "run", "--plates", plates, "--crop", puppet.crop_text(), "--model", str(pack)]
    assert main([*arguments, "--rounds", "1", "--json", str(file)]) == 0
    content = json.loads(file.read_text())
    assert content["ratio"] > 0
    assert content["frames"] == 4
    assert set(content["stages_ms"]) >= {"decode", "detect", "fill", "encode"}


def test_a_failed_convert_leaves_the_file_that_was_there(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace as changed

    from rotopaint_ai.errors import DocumentError
    from rotopaint_ai.exchange import formats

    def tear(path: Path, _: object) -> None:
        path.write_text("half")
        raise DocumentError(f"{path.name}: reads back 3 px off")

    target = tmp_path / "good.svg"
    assert main(["convert", str(shapes / "shapes.roto.json"), str(target)]) == 0
    good = target.read_bytes()
    torn = tuple(changed(each, write=tear) if ".svg" in each.suffixes else each for each in formats.FORMATS)
    monkeypatch.setattr(formats, "FORMATS", torn)
    assert main(["convert", str(shapes / "shapes.roto.json"), str(target)]) == 2
    assert "good.svg: reads back 3 px off" in capsys.readouterr().err
    assert target.read_bytes() == good
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize(
    ("source", "frames"),
    [
        ("{folder}/plate.*.exr", "1002"),
        ("{folder}/plate.####.exr 1002-1003", "1002-1003"),
        ("{folder}/plate.####.exr --frames 1001,1003-1004 --colorspace linear", "1001,1003-1004"),
    ],
)
def test_plates_and_frames_are_named_as_artists_name_them(
    plates: str, shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, frames: str
) -> None:
    from rotopaint_ai.frames import n_frames, parse_frames

    path, *more = source.split(" --") if " --" in source else [source]
    words = [word for option in more for word in f"--{option}".split()] or (["--frames", "1002"] if "*" in path else [])
    path = path.format(folder=Path(plates).parent)
    assert main(["clean", path, str(shapes / "shapes.roto.json"), "--out", str(tmp_path), *words]) == 0
    wanted = parse_frames(frames)
    assert [int(each.name.split(".")[1]) for each in sorted((tmp_path / "clean").iterdir())] == list(wanted)
    assert f"clean plates of {n_frames(len(wanted))} written" in capsys.readouterr().out


def test_a_pattern_that_the_shell_has_made_into_files_is_the_plate_again(tmp_path: Path) -> None:
    """A shell expands an unquoted `plate.*.exr` to the names of files."""
    for frame in (*range(1001, 1005), 1010):
        (tmp_path / f"plate.{frame}.exr").touch()
    shapes = tmp_path / "shapes.roto.json"
    shapes.touch()
    files = sorted(str(each) for each in tmp_path.glob("plate.*"))
    pattern = str(tmp_path / "plate.####.exr")
    assert join_files([*files, "--out", "a"], has_frames=True) == [pattern, "--out", "a"]
    some = ["--out", "a", *files[1:], str(shapes)]
    assert join_files(some, has_frames=True) == ["--out", "a", pattern, str(shapes), "--frames", "1002-1004,1010"]
    assert join_files([*files[:2], "--frames", "1001"], has_frames=True) == [pattern, "--frames", "1001"]
    assert join_files(files[:2], has_frames=False) == [pattern]
    assert join_files([files[0], str(shapes)], has_frames=True) == [files[0], str(shapes)]
    after_a_file = ["--project", str(shapes), *files]
    assert join_files(after_a_file, has_frames=True) == ["--project", str(shapes), pattern]
    assert join_files([*files[:2], "--frames=1001"], has_frames=True) == [pattern, "--frames=1001"]
    movies = [str(tmp_path / name) for name in ("take1.mov", "take2.mov")]
    for movie in movies:
        Path(movie).touch()
    assert join_files(movies, has_frames=True) == movies


def test_run_takes_several_ranges(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    words = ["--crop", puppet.crop_text(), "--out", str(tmp_path), "--model", str(pack), "--frames", "1001,1003-1004"]
    assert main(["run", plates, *words, "--no-clean", "--export", ""]) == 0
    assert sorted(int(each.name.split(".")[1]) for each in (tmp_path / "matte").glob("all.*")) == [1001, 1003, 1004]


def test_convert_says_of_each_format_what_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--help"]) == 0
    ways = {line[2:16].strip(): line[40:56].strip() for line in capsys.readouterr().out.splitlines()}
    wanted = {"Nuke": "reads and writes", "Cryptomatte": "writes", "JSON": "reads"}
    assert {name: ways[name] for name in wanted} == wanted


def test_the_panel_is_given_the_plate_and_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[tuple[str | None, Path | None]] = []

    def show(plates: str | None, out: Path | None) -> int:
        given.append((plates, out))
        return 0

    monkeypatch.setattr("rotopaint_ai.cli.panel.load_window", lambda: show)
    assert main(["panel", f"{tmp_path}/p.####.png", "--out", str(tmp_path / "out")]) == 0
    assert main(["panel"]) == 0
    assert given == [(f"{tmp_path}/p.####.png", tmp_path / "out"), (None, None)]


def test_a_panel_on_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["panel", str(tmp_path / "gone.jpg")]) == 2
    assert "gone.jpg: does not exist; wanted a plate's pattern" in capsys.readouterr().err
    assert main(["panel", "--out", str(tmp_path / "out")]) == 2
    assert "--out: is the output folder for PLATES; give PLATES too" in capsys.readouterr().err


def test_a_stopped_conversion_leaves_nothing_beside(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: object) -> None:
        assert any(path.name.startswith(".rotopaint-") for path in tmp_path.iterdir())
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(formats.nuke, "write_report", stop)
    assert main(["convert", str(shapes / "shapes.roto.json"), str(tmp_path / "a.nk")]) == 130
    assert list(tmp_path.iterdir()) == []
    assert _one_line(capsys) == "rotopaint convert: stopped"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(sys.platform == "win32", reason="a shell that closes descriptors")
def test_closed_output_streams_are_no_error(shapes: Path, tmp_path: Path) -> None:
    """`2>&-` used to end in "Please send us"; and a file opened later would have got the closed stream's number."""
    words = [sys.executable, "-m", "rotopaint_ai", "convert", str(shapes / "shapes.roto.json"), str(tmp_path / "a.nk")]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], cwd=ROOT, check=False)
    assert done.returncode == 0
    assert main(["convert", str(shapes / "shapes.roto.json"), str(tmp_path / "b.nk")]) == 0
    assert (tmp_path / "a.nk").read_bytes() == (tmp_path / "b.nk").read_bytes()


@pytest.mark.parametrize("source", [["s.roto.json"], ["--mattes", "m.####.png"], ["--project", "a.rotopaint"], []])
def test_clean_wants_to_know_where_the_seams_are_by_shapes_mattes_or_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: list[str]
) -> None:
    """No file exists here: with shapes, mattes or a project given, the command complains of the plates instead."""
    assert main(["clean", str(tmp_path / "none.####.exr"), *source, "--out", str(tmp_path / "out")]) == 2
    assert ("needs SHAPES" in capsys.readouterr().err) == (not source)
