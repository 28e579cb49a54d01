"""Soak tests: memory and open files over many turns, and runs on a disk that behaves like a network disk.

    python benchmarks/soak.py [PART ...] [--frames 10000] [--edits 20000] [--steps 20000] [--gestures 20000] [--seed 1]

- run: one `run` of tiny plates.
- edits: a session edits, undoes and saves a project.
- panel: the real panel is scrubbed through ten times the pictures it may keep, edited by mouse, undone.
- server: the training loop reads pictures from a server that stalls, breaks off and sends wrong bytes.
- disk: a stopped and resumed run, and a project, on a disk without locks, with a time resolution of two seconds
  and slow renames. The files must equal those on a plain disk.
- late: the last machine of a split run sees only some files of the others, and only the beginning of some. It must
  report that, or write the correct files.

A part is flat if from the first fifth to the end memory (child processes included) grows by at most 8 MB plus a tenth,
and open files by at most four.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import gc
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

STALL_S = 0.02  # response time of a slow server, shortened so that 20,000 steps end in minutes
N_SERVED = 128  # pictures, in some 26 shards
ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = (".", "ui", "models", "tests/support", "tests/pipeline", "benchmarks")
sys.path[:0] = [str(ROOT / folder) for folder in _FOLDERS]


@dataclass(slots=True)
class Watch:
    """Samples of this process: turn, resident megabytes, open files."""

    samples: list[tuple[int, float, int]] = field(default_factory=list)

    def look(self, turn: int) -> None:
        """Take a sample."""
        gc.collect()
        pages = n_files = 0
        for process in (os.getpid(), *_children()):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
            n_files += len(os.listdir(f"/proc/{process}/fd"))
        self.samples.append((turn, round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1), n_files))

    def summary(self) -> dict[str, Any]:
        """The samples, and whether they are flat."""
        first = self.samples[len(self.samples) // 5]
        last = self.samples[-1]
        return {
            "turns": last[0],
            "samples": self.samples[:: max(1, len(self.samples) // 10)],
            "memory_mb": [first[1], max(each[1] for each in self.samples), last[1]],
            "open_files": [first[2], max(each[2] for each in self.samples), last[2]],
            "is_flat": last[1] <= first[1] * 1.1 + 8 and last[2] <= first[2] + 4,
        }


def _children() -> list[int]:
    """The child processes: of the models, of the decoder."""
    tasks = Path("/proc/self/task").iterdir()
    found: list[int] = []
    for task in tasks:
        with suppress(OSError):  # the thread has ended
            found += map(int, (task / "children").read_text().split())
    return found


def soak_run(folder: Path, n_frames: int, seed: int) -> dict[str, Any]:
    """One run of a dozen plates that are repeated under new frame numbers."""
    import puppet

    from rotopaint_ai.jobs import Cancel, RunJob
    from rotopaint_ai.pipeline.run import run

    watch, turn, every = Watch(), 0, max(1, n_frames // 20)
    plates = _many_plates(folder / "plates", n_frames)

    def sink(event: Any) -> None:
        nonlocal turn
        turn += event.kind == "frame"
        if event.kind == "frame" and turn % every == 0:
            watch.look(turn)

    pack = puppet.make_pack(folder / "packs" / "puppet")
    job = RunJob(plates=plates, out=str(folder / "out"), crops=(puppet.crop_text(96, 60),), model=str(pack), threads=2)
    outcome = run(job, sink, Cancel())
    return {**watch.summary(), "done": len(outcome.done), "is_whole": outcome.is_whole}


def _many_plates(folder: Path, n_frames: int) -> str:
    import puppet

    pattern = puppet.make_plates(folder, range(1001, 1013), 96, 60)
    names = sorted(folder.iterdir())
    for n in range(12, n_frames):
        source = names[n % 24 if n % 24 < 12 else 23 - n % 24]
        os.link(source, source.with_name(source.name.replace(source.name.split(".")[-2], f"{1001 + n}")))
    return str(pattern)


def soak_edits(folder: Path, n_edits: int, seed: int) -> dict[str, Any]:
    """The edits of `crashes.py` without a kill; the project is saved and reopened regularly."""
    import crashes

    from rotopaint_ui.session.session import ShotSession

    watch, every = Watch(), max(1, n_edits // 20)
    session, path = ShotSession(), folder / "shot.rotopaint"
    session.start_project(path)
    turn = 0
    while turn < n_edits:
        for _ in crashes.edits(session, seed + turn):
            turn += 1
            if turn % every == 0:
                watch.look(turn)
            if turn % 5000 == 0 or turn >= n_edits:
                break
        before = session.state
        session.close()
        session = ShotSession()
        session.open_project(path)
        if session.state != before:
            return {**watch.summary(), "is_whole": False}
    session.close()
    return {**watch.summary(), "is_whole": True, "file_mb": round(path.stat().st_size / 2**20, 1)}


def soak_panel(folder: Path, n_steps: int, seed: int) -> dict[str, Any]:
    """The real panel with its decoder and project, offscreen, driven by `_Artist`.

    A tenth of the pictures fits the cache. At the end the saved project must equal the state in the panel.
    """
    os.environ |= {"QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(folder)}
    import panel as desk

    app, watch, every = desk.QApplication.instance() or desk.QApplication([]), Watch(), max(1, n_steps // 20)
    panel = desk.Panel(desk.Desk())
    panel.resize(900, 600)
    panel.show()
    panel.frame_cache.set_budget(20 * 96 * 60 * 4)
    desk.open_shot(panel, _many_plates(folder / "plates", 200), folder)
    artist = _Artist(desk, panel, random.Random(seed))
    for step in range(1, n_steps + 1):
        artist.do_something()
        if step % every == 0:
            watch.look(step)
    session, shown = panel.session, panel.session.state
    path = session.project.path
    panel.shut_down()
    with closing(_open_project(path)) as project:
        is_whole = project.load().state == shown
    del app
    return {**watch.summary(), "done": dict(artist.count), "is_whole": is_whole}


def _open_project(path: Path) -> Any:
    from rotopaint_ai.project import Project

    return Project.open(path, write=False)


class _Artist:
    """A simulated artist who makes one gesture after another in a panel."""

    def __init__(self, desk: Any, panel: Any, chance: random.Random) -> None:
        self.desk, self.panel, self.chance, self.count = desk, panel, chance, Counter[str]()
        session = panel.session
        session.edits.push("shapes", desk.replace(session.state, document=_small_document(desk)))
        session.corrections.live = desk.StandIn()
        self.paints = desk.Paints(panel.canvas)

    def do_something(self) -> None:
        """Make one gesture, and let the panel process it."""
        edits = {self.jump: 8, self.drag_point: 3, self.drag_landmark: 2, self.nudge: 2, self.go_back: 4, self.look: 1}
        act = self.chance.choices(list(edits), list(edits.values()))[0]
        act()
        self.count[act.__name__] += 1
        for _ in range(3):
            self.desk.QApplication.processEvents()

    def jump(self) -> None:
        panel, frame = self.panel, self.chance.randrange(1001, 1201)
        panel.session.go_to(frame)
        self.desk.until(lambda: panel.frame_cache.image(self.desk.PLATE, frame) is not None)

    def drag_point(self) -> None:
        session = self.panel.session
        shape = self.chance.choice(session.state.document.shapes)
        self.panel.take_tool("select")
        session.select(shape.name)
        self._drag(self.chance.choice(shape.at(session.frame)))

    def drag_landmark(self) -> None:
        session = self.panel.session
        marks = session.state.document.landmarks.keys.get(session.frame)
        self.panel.take_tool("landmark")
        self._drag(self.chance.choice(marks))

    def _drag(self, place: Any) -> None:
        self.desk.drag(self.panel.canvas, self.paints, self.panel.canvas.view.to_screen(place.x, place.y), 3)

    def nudge(self) -> None:
        self.panel.take_tool("select")
        self.panel.session.select(self.chance.choice(self.panel.session.state.document.shapes).name)
        self.panel.canvas.edit(self.chance.choice(["nudge_right", "nudge_left"]))
        self.panel.session.edits.end_burst()

    def go_back(self) -> None:
        self.panel.commands[self.chance.choice(["undo", "undo", "redo"])].trigger()

    def look(self) -> None:
        from rotopaint_ui.engine.frame_cache import DisplayLook

        self.panel.frame_cache.look = DisplayLook(exposure=self.chance.choice([-1.0, 0.0, 1.0]))


def _small_document(desk: Any) -> Any:
    """Six shapes and eight landmarks with a key at every frame of a plate of 96 x 60."""
    frames = range(1001, 1201)
    shapes = [
        desk.RotoShape(
            f"part {n}",
            n > 1,
            "seam" if n < 2 else "matte",
            {
                f: desk.Key(desk.ring(16 + 12 * n, 30, 6, 9) if n > 1 else desk.line(20, 15 + 20 * n, 50))
                for f in frames
            },
            width_px=3.0 if n < 2 else None,
        )
        for n in range(6)
    ]
    marks = tuple(desk.Landmark(10.0 + 10 * n, 40.0, 1.0) for n in range(8))
    landmarks = desk.LandmarkKeys(tuple(f"mark {n}" for n in range(8)), dict.fromkeys(frames, marks))
    return desk.RotoDocument(96, 60, 1001, 1200, landmarks=landmarks, shapes=tuple(shapes))


def soak_server(folder: Path, n_steps: int, seed: int) -> dict[str, Any]:
    """The training loop on pictures from shards, from a server of which only three responses in four are correct.

    The cache on disk holds half of the shards, the process eight, and no decoded picture is kept. Where the server
    fails four times in a row the training ends, and is resumed as a person would resume it.
    """
    from rotopaint_ai.errors import TrainingError
    from rotopaint_ai.training.data.shards import read
    from rotopaint_ai.training.data.shards.stream import WINDOW
    from rotopaint_ai.training.trainer.config import TrainConfig
    from rotopaint_ai.training.trainer.trainer import Trainer

    watch, every, n_checks, n_resumed = Watch(), max(1, n_steps // 20), 0, 0
    data, plain, asked = _ill_served(folder, random.Random(seed))
    read.MOST_OPEN = WINDOW
    config = TrainConfig(name="soak", minutes=None, steps=n_steps, eval_every=every, batch=4, seed=seed, bf16=False)
    task = _picture_task(data, plain)

    def check() -> None:
        nonlocal n_checks
        n_checks += 1
        if n_checks % every == 0:
            watch.look(n_checks)

    (folder / "run").mkdir()
    while True:
        try:
            trained = Trainer(config, task, folder / "run").fit(resume=bool(n_resumed), check=check)
            break
        except TrainingError as error:
            if "tries" not in str(error):
                raise
            n_resumed += 1
    reported = {"resumed": n_resumed, "answers": sum(asked.values()), **asked, "wrong": task.n_wrong}
    return {**watch.summary(), **reported, "is_whole": not task.n_wrong and trained.steps == n_steps}


def _ill_served(folder: Path, chance: random.Random) -> tuple[Any, Any, Counter[str]]:
    """A data set from a faulty server, the same from disk, and the counts of the server's responses so far."""
    import numpy as np

    from rotopaint_ai.plates.coded_pictures import write_picture
    from rotopaint_ai.sheet import LandmarkSpec, Sheet
    from rotopaint_ai.training.data.dataset import Sample, read_dataset, write_dataset
    from rotopaint_ai.training.data.shards.read import ShardPictures
    from rotopaint_ai.training.data.shards.store import Server
    from rotopaint_ai.training.data.shards.write import pack_dataset

    rng, samples, asked = np.random.default_rng(chance.randrange(1 << 30)), [], Counter[str]()
    for n in range(N_SERVED):
        name = f"images/a.{n}.jpg"
        write_picture(folder / name, rng.integers(0, 255, (48, 64, 3), dtype=np.uint8))
        samples.append(Sample(name, 64, 48, "pip", "sh", n, "train", {"a": (1.0, 2.0, 1.0), "b": (9.0, 9.0, 1.0)}))
    sheet = Sheet("two", (LandmarkSpec("a"), LandmarkSpec("b")))
    write_dataset(folder, name="soak", licence="CC0", sheet=sheet, samples=samples)
    index, packed = pack_dataset(folder, folder / "packed", shard_mb=0.03), folder / "packed"

    def fetch(url: str) -> Iterator[bytes]:
        data = (packed / url.removeprefix("mem://x/")).read_bytes()
        mood = chance.choices(("whole", "stalls", "breaks off", "lies"), (75, 10, 10, 5))[0]
        asked[mood] += 1
        if mood == "stalls":
            time.sleep(STALL_S)
        yield data[:100] if mood == "breaks off" else data[::-1] if mood == "lies" else data
        if mood == "breaks off":
            raise ConnectionResetError("connection reset")

    half = sum(shard.n_bytes for shard in index.shards) / 2
    server = Server("mem://x", folder / "cache", fetch, limit_bytes=half, pause_s=0.001)
    plain = read_dataset(folder)
    return replace(plain, folders=(ShardPictures(server, index),) * N_SERVED), plain, asked


def _picture_task(data: Any, plain: Any) -> Any:
    """A network of one layer with real batches, which are prefetched as for the landmark network."""
    import numpy as np
    import torch
    from torch import nn

    from rotopaint_ai.training.data.shards.stream import PictureStream, Sampler, prefetch
    from rotopaint_ai.training.trainer.task import Moment, Task

    class PictureTask(Task[nn.Conv2d, Any]):
        def __init__(self) -> None:
            torch.manual_seed(0)
            self.net, self.n_wrong = nn.Conv2d(3, 4, 3), 0
            self.order = Sampler(len(data), 1, data.groups())
            sizes = [(sample.width, sample.height) for sample in data.samples]
            self.pictures = PictureStream(data.picture, sizes, [1.0] * len(data), data.fetch, 0.0, data.load_bytes)

        def arrays(self) -> list[Any]:
            return [data.truth.landmarks]

        def make_batch(self, moment: Moment) -> Any:
            rows = self.order.batch(moment.step, moment.config.batch)
            pictures = [self.pictures[row] for row in rows]
            self.n_wrong += sum(not np.array_equal(each, plain.picture(row)) for each, row in zip(pictures, rows))
            return np.stack(pictures)

        def to_device(self, batch: Any, moment: Moment) -> Any:
            return torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255

        def loss(self, net: nn.Conv2d, inputs: Any, moment: Moment) -> Any:
            return net(inputs).square().mean(), {}

        @contextmanager
        def prefetching(self, first: Moment) -> Iterator[Callable[[Moment], None]]:
            with prefetch(self.pictures, lambda step: self.order.prefetch_rows(step, first.config.batch)) as tell:
                yield lambda moment: tell(moment.step)

    return PictureTask()


@contextmanager
def network_disk(seed: int) -> Iterator[None]:
    """Simulate a disk without locks, with a time resolution of two seconds, where one rename in five is slow."""
    chance, stat, replace, flock = random.Random(seed), os.stat, os.replace, fcntl.flock

    def no_lock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def coarse(*words: Any, **named: Any) -> os.stat_result:
        facts = stat(*words, **named)
        step = 2_000_000_000
        values = list(facts)
        values[7:10] = [int(value) // 2 * 2 for value in values[7:10]]
        extra = {"st_mtime_ns": facts.st_mtime_ns // step * step, "st_mtime": float(facts.st_mtime // 2 * 2)}
        return os.stat_result(values, {**{n: getattr(facts, n) for n in _MORE if hasattr(facts, n)}, **extra})

    def late(*words: Any, **named: Any) -> None:
        replace(*words, **named)
        if chance.random() < 0.2:
            time.sleep(0.05)

    os.stat, os.replace, fcntl.flock = coarse, late, no_lock  # type: ignore[assignment]
    try:
        yield
    finally:
        os.stat, os.replace, fcntl.flock = stat, replace, flock


_MORE = ("st_atime", "st_ctime", "st_atime_ns", "st_ctime_ns", "st_blksize", "st_blocks", "st_rdev")


def soak_disk(folder: Path, n_frames: int, seed: int) -> dict[str, Any]:
    """A run, stopped and resumed, and a project, on a plain disk and on the network disk; files must be equal."""
    plates = _many_plates(folder / "plates", n_frames)
    plain = _run_and_project(folder / "plain", plates, n_frames)
    with network_disk(seed):
        other = _run_and_project(folder / "network", plates, n_frames)
    differ = sorted(name for name in {*plain, *other} if plain.get(name) != other.get(name))
    return {"turns": n_frames, "files": len(plain), "differ": differ, "is_whole": not differ}


def soak_late(folder: Path, n_tries: int, seed: int) -> dict[str, Any]:
    """A shot is tracked and painted in two ranges; the gathering machine sees a random part of the files."""
    import puppet

    from rotopaint_ai.errors import RotopaintError
    from rotopaint_ai.frames import FrameRange
    from rotopaint_ai.jobs import Cancel, RunJob
    from rotopaint_ai.pipeline.run import gather, paint, track

    plates, pack, there = (
        _many_plates(folder / "plates", 12),
        puppet.make_pack(folder / "packs" / "puppet"),
        folder / "out",
    )
    words = {"plates": plates, "out": str(there), "crops": (puppet.crop_text(96, 60),), "model": str(pack)}
    job = RunJob(**words, resume=True, threads=1)
    track(job, _nobody, Cancel())
    for frames in (FrameRange(1001, 1006), FrameRange(1007, 1012)):
        paint(job, frames, _nobody, Cancel())
    whole = there.rename(folder / "whole")
    shutil.copytree(whole, there)
    gather(job, _nobody)
    wanted, count, chance = _prints(there), Counter[str](), random.Random(seed)
    for turn in range(n_tries):
        shutil.rmtree(there)
        _copy_some(whole, there, chance)
        try:
            if turn % 2:
                paint(job, FrameRange(1007, 1012), _nobody, Cancel())
            is_whole = gather(job, _nobody).is_whole
        except (RotopaintError, OSError):
            count["refused"] += 1
            continue
        is_right = _prints(there) == wanted
        count["right" if is_right else "reported" if not is_whole else "wrong in silence"] += 1
    return {"turns": n_tries, **count, "is_whole": not count["wrong in silence"]}


def _nobody(event: Any) -> None:
    """Ignore an event."""


def _copy_some(whole: Path, there: Path, chance: random.Random) -> None:
    """Copy a folder as another machine may see it: each file completely, only its beginning, or not at all."""
    share = chance.random() * 0.3
    for path in sorted(whole.rglob("*")):
        copy = there / path.relative_to(whole)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        elif chance.random() > share:
            copy.write_bytes(path.read_bytes())
        elif chance.random() < 0.5:
            content = path.read_bytes()
            copy.write_bytes(content[: chance.randrange(len(content) + 1)])


_KINDS = ("clean", "matte", "shapes.roto.json", "shapes.nk")


def _prints(out: Path) -> dict[str, str]:
    """Hashes of a run's output files, by name."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and path.relative_to(out).parts[0] in _KINDS]
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _run_and_project(folder: Path, plates: str, n_frames: int) -> dict[str, str]:
    import puppet

    from rotopaint_ai.errors import CancelledError
    from rotopaint_ai.jobs import Cancel, RunJob
    from rotopaint_ai.pipeline.run import run
    from rotopaint_ai.project import CropBox, Project, State

    pack = puppet.make_pack(folder / "packs" / "puppet")
    cancel, left = Cancel(), n_frames // 2

    def sink(event: Any) -> None:
        nonlocal left
        left -= event.kind == "frame"
        if left == 0:
            cancel.request()

    job = {"plates": plates, "out": str(folder / "out"), "crops": (puppet.crop_text(96, 60),), "model": str(pack)}
    try:
        run(RunJob(**job), sink, cancel)
    except CancelledError:
        run(RunJob(**job, resume=True), lambda event: None, Cancel())
    with closing(Project.create(folder / "shot.rotopaint", State())) as project:
        project.append("crop", State(), State(crops={5: CropBox(1, 2, 3, 4)}))
    with closing(Project.open(folder / "shot.rotopaint")) as project:
        state = repr(project.load().state)
    return {**_prints(folder / "out"), "project": state}


def main() -> int:
    """Run the selected soak tests and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts: dict[str, tuple[Callable[[Path, int, int], dict[str, Any]], str]] = {
        "run": (soak_run, "frames"),
        "edits": (soak_edits, "edits"),
        "panel": (soak_panel, "gestures"),
        "server": (soak_server, "steps"),
        "disk": (soak_disk, "disk_frames"),
        "late": (soak_late, "late_tries"),
    }
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(parts)} (default: all)")
    counts = {
        "frames": 10_000,
        "edits": 20_000,
        "gestures": 20_000,
        "steps": 20_000,
        "disk-frames": 24,
        "late-tries": 100,
    }
    for name, default in {**counts, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = {}
    for name in given.parts or parts:
        act, count = parts[name]
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            rows[name] = {"part": name, "seed": given.seed, **act(Path(folder), getattr(given, count), given.seed)}
        print(json.dumps(rows[name]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(list(rows.values()), indent=1) + "\n", encoding="utf-8")
    return int(not all(row.get("is_flat", True) and row["is_whole"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
