"""A scripted session is killed (SIGKILL) at random moments: is work lost, does undo still work, is the file intact?

    python benchmarks/crashes.py [--kills 50] [--seed 1] [--json FILE]

The session drags points, sets seams, draws crops, marks frames, takes runs, undoes and redoes. Each edit is preceded by
the previews of its gesture, and the session reports on a pipe when an edit has returned. After each kill the project is
opened again. It must hold the state after the last edit that returned, or after the edit in progress. All steps must
undo to the states that the same script gives without a file. SQLite must find no fault.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rotopaint_ai.project import CropBox, Project, SeamSettings, State
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ui.session.session import ShotSession

FRAMES = range(1001, 1049)
N_SHAPES, N_POINTS = 6, 12
MOST_ACTS = 5000

AnyCrash = TypeVar("AnyCrash")


@dataclass(frozen=True, slots=True)
class Crash:
    """One kill: the number of edits before it, how many of them were on disk, whether file and undo were intact."""

    edits_returned: int
    edits_on_disk: int
    integrity: str
    undone: int
    is_right: bool
    reopened_ms: float


def model(seed: int) -> RotoDocument:
    """The shot of a finished run."""
    draw = random.Random(seed)

    def key() -> Key:
        return Key(tuple(ControlPoint(*(round(draw.uniform(0, 900), 4) for _ in range(6))) for _ in range(N_POINTS)))

    shapes = tuple(
        RotoShape(f"shape {k}", k > 2, "matte" if k > 2 else "seam", {f: key() for f in FRAMES}, width_px=4.0)
        for k in range(N_SHAPES)
    )
    marks = {f: tuple(Landmark(draw.uniform(0, 900), draw.uniform(0, 500), 1.0) for _ in range(30)) for f in FRAMES}
    names = tuple(f"landmark {k}" for k in range(30))
    return RotoDocument(960, 540, 1001, 1048, landmarks=LandmarkKeys(names, marks), shapes=shapes)


def edits(session: ShotSession, seed: int) -> Iterator[None]:
    """A sequence of edits, always the same for a seed."""
    draw = random.Random(seed)
    session.edits.push("run", State(document=model(seed), predicted=model(seed)))
    yield
    for k in range(MOST_ACTS):
        _act(session, draw, k)
        yield


def _act(session: ShotSession, draw: random.Random, k: int) -> None:
    kind, frame = draw.random(), draw.choice(FRAMES)
    document, name = session.document, f"shape {draw.randrange(N_SHAPES)}"
    if kind < 0.12:
        session.edits.undo()
    elif kind < 0.2:
        session.edits.redo()
    elif kind < 0.3:
        session.review.mark([frame], draw.choice(["accepted", "needs work", None]))
    elif kind < 0.4:
        session.seams.set({name: SeamSettings(width_px=round(draw.uniform(1, 9), 2), grain=0.5)})
    elif kind < 0.45:
        new = model(draw.randrange(1 << 30))
        session.edits.push("run", replace(session.state, document=new, predicted=new))
    elif kind < 0.6:
        session.edits.push(
            "crop box", replace(session.state, crops={**session.state.crops, frame: CropBox(k, frame, 80, 80)})
        )
    elif document is not None:
        _drag(session, name, frame, draw)


def _drag(session: ShotSession, name: str, frame: int, draw: random.Random) -> None:
    session.edits.begin("move points")
    dx, index = draw.uniform(-9, 9), draw.randrange(N_POINTS)
    for part in (0.3, 0.6, 1.0):
        before = session.edits.before_gesture
        if before.document is not None:
            moved = edit.move_points(before.document, name, frame, {index: (dx * part, 0)})
            session.edits.preview(replace(before, document=moved))
    session.edits.commit()


def perform(path: Path, seed: int) -> None:
    """The child process: edit until it is killed."""
    session = ShotSession()
    session.start_project(path)
    for _ in edits(session, seed):
        os.write(1, b".")
    time.sleep(60)


def crash(path: Path, seed: int, after_s: float, *, fewest: int = 1) -> Crash:
    """Start a session, kill it some time after its first edits, and open its project."""
    words = [sys.executable, __file__, "--perform", str(path), "--seed", str(seed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        output = child.stdout.read(fewest)  # the session has started to edit
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
        output += child.stdout.read()
    return look(path, seed, len(output))


def integrity_of(path: Path) -> str:
    """The result of SQLite's integrity check of a file: `ok`, or the fault."""
    connection = sqlite3.connect(path)
    result = str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    connection.close()
    return result


def look(path: Path, seed: int, returned: int) -> Crash:
    """Compare the project of a killed session with the same script in memory."""
    start = time.perf_counter()
    session = ShotSession()
    session.open_project(path)
    reopened = 1000 * (time.perf_counter() - start)
    twin, on_disk = ShotSession(), -1
    for count, _ in enumerate(edits(twin, seed), 1):
        if count >= returned and twin.state == session.state:
            on_disk = count
            break
        if count > returned:
            break
    undone = 0
    is_right = on_disk in (returned, returned + 1)
    while is_right and (session.edits.can_undo or twin.edits.can_undo):
        is_right = session.edits.undo() == twin.edits.undo() and session.state == twin.state
        undone += 1
    session.close()
    integrity = integrity_of(path)
    reread = Project.open(path, write=False)
    is_right = is_right and integrity == "ok" and reread.load().state == session.state
    reread.close()
    return Crash(returned, on_disk, integrity, undone, is_right, round(reopened, 1))


def measure(folder: Path, kills: int, seed: int, longest_s: float = 0.6, *, fewest: int = 1) -> list[Crash]:
    """Many crashes, each of a new session at a random moment after the first `fewest` edits."""
    draw = random.Random(seed)
    return [
        crash(folder / f"{k}.rotopaint", draw.randrange(1 << 30), draw.uniform(0, longest_s), fewest=fewest)
        for k in range(kills)
    ]


def _summary(found: Sequence[Crash]) -> dict[str, Any]:
    return {
        "kills": len(found),
        "right": sum(each.is_right for each in found),
        "whole": sum(each.integrity == "ok" for each in found),
        "edits_before_the_kill": sorted(each.edits_returned for each in found),
        "edits_lost": sum(max(each.edits_returned - each.edits_on_disk, 0) for each in found),
        "steps_undone": sum(each.undone for each in found),
        "reopened_ms_median": sorted(each.reopened_ms for each in found)[len(found) // 2],
        "wrong": [asdict(each) for each in found if not each.is_right],
    }


def command_line(
    doc: str | None,
    perform: Callable[[Path, int], None],
    measure: Callable[[Path, int, int], Iterable[AnyCrash]],
    summarise: Callable[[Sequence[AnyCrash]], dict[str, Any]],
) -> int:
    """Measure and print a summary of the kills; returns 1 where not all are right. `perform` is the killed session."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--perform", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.perform is not None:
        perform(options.perform, options.seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        content = summarise(list(measure(Path(folder), options.kills, options.seed)))
    text = json.dumps(content, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0 if content["right"] == content["kills"] else 1


if __name__ == "__main__":
    sys.exit(command_line(__doc__, perform, measure, _summary))
