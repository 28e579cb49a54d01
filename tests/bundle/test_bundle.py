"""The bundle of `scripts/bundle` in a root without Python: the demo, a movie, an artist's way through the sample.

`ROTOPAINT_BUNDLE` names the unpacked folder; `scripts/bundle` runs this before it packs. Mouse and keys come from
xdotool, the screen is Xvfb, and results are read from the files that the program wrote.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from rotopaint_ai.errors import ProjectError
from rotopaint_ai.project import Project

BUNDLE = os.environ.get("ROTOPAINT_BUNDLE", "")
SAMPLE = Path(__file__).resolve().parents[2] / "models" / "rotopaint_models" / "sample"
NEEDED = ("Xvfb", "xdotool", "unshare", "chroot")
BOUND = ("lib64", "usr/lib/x86_64-linux-gnu", "usr/share/fonts", "usr/share/X11", "etc/fonts", "dev", "proc")
LINKS = {"lib": "usr/lib"}
PATIENCE_S = 300.0

pytestmark = [
    pytest.mark.skipif(not BUNDLE, reason="ROTOPAINT_BUNDLE names no bundle; scripts/bundle makes one"),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"wants {', '.join(NEEDED)}"),
]


@dataclass(frozen=True, slots=True)
class Root:
    """A root folder with the system's libraries, the bundle under /opt and a /tmp of its own."""

    path: Path

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start the bundle's program in that root, with an otherwise empty environment."""
        mounts = [f"mount --rbind /{name} {self.path}/{name}" for name in BOUND if Path("/", name).exists()]
        mounts += [f"mount --bind {BUNDLE} {self.path}/opt/rotopaint"]
        reported = {"HOME": "/tmp/home", "PATH": "/usr/bin", **environment}
        inside = ["env", "-i", *(f"{name}={value}" for name, value in reported.items())]
        script = " && ".join([*mounts, 'exec "$@"'])
        command = ["unshare", "--map-root-user", "--mount", "sh", "-ec", script, "sh", *inside]
        start = [shutil.which("chroot") or "chroot", str(self.path), "/opt/rotopaint/rotopaint", *words]
        return subprocess.Popen([*command, *start], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    for name in (*BOUND, "tmp/home", "opt/rotopaint"):
        (tmp_path / name).mkdir(parents=True)
    for name, target in LINKS.items():
        (tmp_path / name).symlink_to(target)
    shutil.copytree(SAMPLE, tmp_path / "tmp" / "shot")
    return Root(tmp_path)


@pytest.fixture
def display() -> Iterator[str]:
    """A virtual screen of 1600 x 1000, which stays open when xdotool exits."""
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1000x24", "-nolisten", "tcp", "-noreset"]
    server = subprocess.Popen(command, pass_fds=(write,), stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as reported:
        yield f":{reported.readline().strip()}"
    server.terminate()
    server.wait()


@dataclass(frozen=True, slots=True)
class Hand:
    """Presses keys in the program's window."""

    display: str
    process: subprocess.Popen[str]

    def window(self) -> str:
        """The largest window's number, once it is there."""
        self.wait("the window", lambda: self._do("search", "--onlyvisible", "--name", "RotoPaint"))
        return self._do("search", "--onlyvisible", "--name", "RotoPaint").split()[-1]

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        self._do("windowfocus", "--sync", self.window())
        for key in keys:
            self._do("key", key)
            time.sleep(0.5)

    def press_until(self, what: str, holds: Callable[[], object], key: str) -> None:
        """Press a key, and again every minute, until something is true: a starting program may miss the first press.

        Not sooner, because F5 during a run stops it.
        """
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"{what} did not come"
            self.press(key)
            pause = time.monotonic() + 60
            while time.monotonic() < pause and not holds():
                time.sleep(0.5)

    def wait(self, what: str, holds: Callable[[], object]) -> None:
        """Wait until something is true; the program must stay alive meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            if self.process.poll() is not None:
                pytest.fail(f"{what}: the program ended with {self.process.returncode}: {self.process.stdout.read()}")
            assert time.monotonic() < end, f"{what} did not come"
            time.sleep(0.2)

    def _do(self, *words: str) -> str:
        environment = {**os.environ, "DISPLAY": self.display}
        return subprocess.run(["xdotool", *words], capture_output=True, text=True, env=environment, check=False).stdout


def test_the_demo_runs_where_there_is_no_python(root: Root) -> None:
    assert not list(root.path.glob("usr/bin/*")) + list(root.path.glob("usr/local/*"))
    process = root.start("demo", "--out", "/tmp/out")
    reported, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, reported
    assert len(list((root.path / "tmp/out/clean").iterdir())) == 24
    assert json.loads((root.path / "tmp/out/run.json").read_text())["frames"]["failed"] == {}


def test_a_movie_is_traced_where_there_is_no_python(root: Root) -> None:
    with av.open(str(root.path / "tmp" / "plate.mov"), "w") as movie:
        stream = movie.add_stream("prores_ks", 24)
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv422p10le"
        for _ in range(2):
            grey = np.full((180, 320, 3), 110, np.uint8)
            movie.mux(stream.encode(av.VideoFrame.from_ndarray(grey, "rgb24")))
        movie.mux(stream.encode())
    process = root.start("run", "/tmp/plate.mov", "--crop", "80,20,140,140", "--out", "/tmp/out", "--no-clean")
    reported, _ = process.communicate(timeout=PATIENCE_S)
    assert "0 frames done, 2 frames without a face" in reported, reported


def test_an_artist_goes_through_the_sample_shot(root: Root, display: str) -> None:
    """Run, go to the worst frame, nudge a shape, export, quit: the corrected key is in the project."""
    out = root.path / "tmp" / "out"
    process = root.start("panel", "/tmp/shot", "--out", "/tmp/out", DISPLAY=display)
    hand = Hand(display, process)
    try:
        hand.window()
        time.sleep(10)  # until the plate is open
        hand.press_until("the run", lambda: list(out.glob("matte/*")), "F5")
        hand.wait("its result", lambda: (out / "run.json").is_file() and _keys(out))
        assert {source for _, _, source in _keys(out)} == {"model"}
        hand.press("n", "Next", "ctrl+a", "alt+Right")
        hand.wait("the correction", lambda: "human" in {source for _, _, source in _keys(out)})
        hand.press("ctrl+e")
        hand.press_until("the export", lambda: list((out / "export").glob("*.nk")), "ctrl+e")
        hand.press("ctrl+q")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
    worst = _largest_error(json.loads((out / "run.json").read_text()))
    corrected = {(frame, name) for name, frame, source in _keys(out) if source == "human"}
    assert len({name for _, name in corrected}) == 1
    assert worst in {frame for frame, _ in corrected}


def _largest_error(run: dict[str, Any]) -> int:
    """The frame with the largest expected error of a seam, which N goes to."""
    seams = [column for column, name in enumerate(run["errors"]["shapes"]) if run["shapes"][name]["role"] == "seam"]
    rows = run["errors"]["by_frame"]
    return int(max(rows, key=lambda frame: max(rows[frame][column] for column in seams)))


def _keys(out: Path) -> set[tuple[str, int, str]]:
    """Shape, frame and source of every key in the panel's project; none while it is being written."""
    try:
        project = Project.open(out / "plate.rotopaint", write=False)
    except ProjectError:
        return set()
    try:
        document = project.load().state.document
    finally:
        project.close()
    shapes = document.shapes if document is not None else ()
    return {(shape.name, frame, key.source) for shape in shapes for frame, key in shape.keys.items()}
