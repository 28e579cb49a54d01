"""A show on simulated workers of the real Dask scheduler (goal P11).

    python -m benchmarks.scaling.show [--shots 1000] [--workers 1,4,16,64,256] [--trouble none,workers,scheduler] >LINES
    python -m benchmarks.scaling.show --draw LINES >docs/research/show.svg
    python -m benchmarks.scaling.show --film

Scheduler, workers, client and notes are those of `rotopaint batch --cluster`; a task sleeps as long as a recorded task
took, on a clock that skips sleep. The kinds of trouble are: `workers`, where one worker in a hundred (at least one)
dies with its task, and another starts after half a minute; `scheduler`, where in addition the scheduler dies at half
time, and everything starts again a minute later from the files on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.scaling import clock
from rotopaint_ai.errors import UsageError

if TYPE_CHECKING:
    from rotopaint_ai.batch.notes import TaskNotes
    from rotopaint_ai.batch.tasks import BatchTask

RECORDED = Path(__file__).with_name("recorded.json")
TROUBLES = ("none", "workers", "scheduler")
RECORDED_CHUNK = 50  # frames of a recorded paint task
FRAMES, COMES_BACK_S, RESTART_S, DIE_SHARE = 100, 30.0, 60.0, 0.01
FILM_SHOTS, FILM_PUPPETS = 1500, 80
PUPPET_S = 900.0  # seconds of mining, of a five-minute training on two cores, and of evaluation, on one worker
GOAL, COLOURS = 1.1, ("#666666", "#1f6fd6", "#1b998b")
SAID = ("nothing happens", "one worker in a hundred dies", "and the scheduler dies at half time")
QUIET = {  # self-measurements of hundreds of servers in one process
    "distributed.admin.tick.interval": "60s",
    "distributed.admin.tick.limit": "10h",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.scheduler.worker-ttl": None,
}
Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class ShowTimes:
    """A simulated show. Seconds of the simulated clock; `cpu_ms` is processor time of scheduler, workers and client."""

    workers: int
    trouble: str
    tasks: int
    work_s: float
    longest_s: float
    makespan_s: float
    cpu_ms_per_task: float
    attempts: int
    lost: int

    @property
    def ratio(self) -> float:
        """Makespan over the ideal, in which work is shared evenly, nothing waits, and no worker is ever missing."""
        return self.makespan_s * self.workers / self.work_s


def recorded_times(folder: Path) -> Times:
    """Recorded seconds of the tasks of a real show, by kind."""
    times: Times = {"track": [], "paint": [], "gather": []}
    for path in sorted((folder / ".rotopaint/tasks").rglob("*.done")):
        times[path.name.split(".")[0]].append(json.loads(path.read_text())["seconds"])
    if not all(times.values()):
        raise UsageError(f"--recorded {folder}: no finished show; wanted the 'out' of one")
    return times


def tasks_of_show(n_shots: int, chunk: int) -> tuple[BatchTask, ...]:
    """The tasks (track, ranges of frames, gather) of `n_shots` shots of 100 frames."""
    from rotopaint_ai.batch.jobs_file import JobShot
    from rotopaint_ai.batch.tasks import BatchTask, chunks
    from rotopaint_ai.jobs import RunJob

    tasks: list[BatchTask] = []
    for number in range(n_shots):
        name = f"sh{number:04}"
        shot = JobShot(name, RunJob(f"{name}.####.exr", name, ("auto",)), chunk=chunk, retries=2)
        track = BatchTask(shot, "track")
        paint = [BatchTask(shot, "paint", piece, (track.key,)) for piece in chunks(range(1, FRAMES + 1), chunk)]
        tasks += [track, *paint, BatchTask(shot, "gather", None, tuple(task.key for task in paint))]
    return tuple(tasks)


def seconds_of(task: BatchTask, times: Times) -> float:
    """The seconds of a task: those of a recorded task of its kind, always the same one; painting scales by frames."""
    seconds = random.Random(task.key).choice(times[task.kind])
    share = 1.0 if task.frames is None else (task.frames.last - task.frames.first + 1) / RECORDED_CHUNK
    return seconds * share


_attempts = [0]


async def sleep_task(task: BatchTask, notes: TaskNotes, times: Times, topic: str) -> None:
    """A worker's attempt: sleeps as long as recorded, then notes the task as done; a finished task takes no time."""
    if notes.is_done(task):
        return
    _attempts[0] += 1
    await asyncio.sleep(seconds_of(task, times))
    notes.finish(task, {})


async def pass_show(tasks: Sequence[BatchTask], workers: int, times: Times, folder: Path, trouble: str) -> ShowTimes:
    """Simulate a show with a kind of trouble."""
    from rotopaint_ai.batch.notes import TaskNotes

    notes, total = TaskNotes(folder), sum(seconds_of(task, times) for task in tasks)
    ideal = total / workers
    _attempts[0] = 0
    cpu, taken = time.process_time(), 0.0
    deaths_within = 0.0 if trouble == "none" else ideal / 2
    if trouble == "scheduler":
        taken += await _life(tasks, notes, workers, times, deaths_within, ends_after=ideal / 2) + RESTART_S
        deaths_within = 0.0
    left = [task for task in tasks if not notes.is_done(task)]
    taken += await _life(left, notes, workers, times, deaths_within)
    cpu = (time.process_time() - cpu) / len(tasks)
    lost = sum(not notes.is_done(task) for task in tasks)
    return ShowTimes(workers, trouble, len(tasks), total, _longest(tasks, times), taken, cpu * 1000, _attempts[0], lost)


def _longest(tasks: Sequence[BatchTask], times: Times) -> float:
    """Seconds of the longest shot with a worker for each of its tasks; no cluster can be faster."""
    ends: dict[str, float] = {}
    for task in tasks:
        ends[task.key] = max((ends[key] for key in task.needs), default=0.0) + seconds_of(task, times)
    return max(ends.values())


async def _life(
    tasks: Sequence[BatchTask],
    notes: TaskNotes,
    workers: int,
    times: Times,
    deaths_within: float,
    ends_after: float | None = None,
) -> float:
    """One life of a scheduler: until all is done, or until it dies; returns its seconds."""
    from distributed import Client, Scheduler, Worker

    from rotopaint_ai.batch.cluster import submit
    from rotopaint_ai.batch.turns import Turn, Turns

    async with Scheduler(protocol="inproc://", port=0, dashboard=False) as scheduler:
        staff = [await Worker(scheduler.address, nthreads=1, memory_limit=0) for _ in range(workers)]
        async with Client(scheduler.address, asynchronous=True, set_as_default=False) as client:
            began = time.monotonic()
            turns = Turns(tasks, workers)

            async def carry_out(turn: Turn) -> None:
                future = submit(client, turn, notes, times, "show", sleep_task)
                await future._state.wait()
                del future  # otherwise the scheduler keeps the result, and repeats the task if its worker dies
                await asyncio.gather(*map(carry_out, turns.after(turn.task)))

            killing = asyncio.create_task(_kill_some(scheduler, staff, deaths_within))
            waiting = asyncio.gather(*map(carry_out, turns.first()))
            with suppress(TimeoutError):
                await asyncio.wait_for(waiting, ends_after)
            taken = time.monotonic() - began
            killing.cancel()
        for worker in staff:
            await worker.close(nanny=False, executor_wait=False)
    return taken


async def _kill_some(scheduler: Any, staff: list[Any], within: float) -> None:
    """Kill one worker in a hundred at a random moment, with its task; half a minute later start another."""
    from distributed import Worker

    chance = random.Random(7)
    n_deaths = max(1, round(DIE_SHARE * len(staff))) if within else 0
    for _ in range(n_deaths):
        await asyncio.sleep(chance.uniform(0.1, 0.9) * within / n_deaths)
        worker = staff.pop(chance.randrange(len(staff)))
        worker.batched_stream.abort()
        await worker.close(nanny=False, executor_wait=False)
        await asyncio.sleep(COMES_BACK_S)
        staff.append(await Worker(scheduler.address, nthreads=1, memory_limit=0))


def film_lines(times: Times, chunk: int) -> list[str]:
    """Estimated hours of a feature film by workers: shots, and mining, training and evaluation of each puppet.

    Graham's bound: a schedule without unnecessarily idle workers takes at most work over workers plus the longest
    chain. Source: Graham, "Bounds on multiprocessing timing anomalies" (1969).
    """
    mean = {kind: sum(taken) / len(taken) for kind, taken in times.items()}
    shot_s = mean["track"] + FRAMES / RECORDED_CHUNK * mean["paint"] + mean["gather"]
    work_s = FILM_SHOTS * shot_s + FILM_PUPPETS * PUPPET_S
    paint_s = max(times["paint"]) * chunk / RECORDED_CHUNK
    longest_s = PUPPET_S + max(times["track"]) + paint_s + max(times["gather"])
    lines = [f"{FILM_SHOTS} shots x {FRAMES} frames, {FILM_PUPPETS} puppets: {work_s / 3600:.0f} hours of one worker"]
    for workers in (1, 4, 16, 64, 256):
        low, high = work_s / workers, work_s / workers + longest_s
        lines.append(f"{workers:4} workers: {low / 3600:7.2f} hours at best, {high / 3600:7.2f} at worst")
    return lines


def svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """Makespan over the ideal by number of workers, a line for each kind of trouble, and the goal."""
    width, height, rim, top = 720.0, 360.0, 60.0, 1.3
    names = sorted({row["workers"] for row in rows})

    def place(workers: int, ratio: float) -> str:
        x = rim + (width - 2 * rim) * math.log2(workers) / math.log2(max(names))
        return f"{x:.1f},{height - rim - (height - 2 * rim) * (ratio - 1) / (top - 1):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        'font-size="13"><rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{rim:g}" y="28">1,000 shots on simulated workers: makespan over the ideal, by workers</text>'
    ]
    for ratio in (1.0, 1.1, 1.2, 1.3):
        colour = "#d9480f" if ratio == GOAL else "#d0d0d0"
        ends = f"{place(1, ratio)} {place(max(names), ratio)}"
        y = float(place(1, ratio).split(",")[1])
        parts.append(f'<polyline points="{ends}" stroke="{colour}"/><text x="22" y="{y + 4:.1f}">{ratio:g}</text>')
    for name in names:
        x = float(place(name, 1.0).split(",")[0])
        parts.append(f'<text x="{x:.1f}" y="{height - rim + 20:g}" text-anchor="middle">{name}</text>')
    for number, trouble in enumerate(dict.fromkeys(row["trouble"] for row in rows)):
        points = [place(row["workers"], row["ratio"]) for row in rows if row["trouble"] == trouble]
        colour = COLOURS[TROUBLES.index(trouble)]
        path = " ".join(sorted(points, key=lambda point: float(point.split(",")[0])))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>' for x, y in (p.split(",") for p in points)]
        parts.append(
            f'<text x="{rim + 10:g}" y="{82 + 18 * number}" fill="{colour}">{SAID[TROUBLES.index(trouble)]}</text>'
        )
    return "".join(parts) + "</svg>"


def main(words: Sequence[str]) -> int:
    """Simulate and print the table as JSON, or draw a table that was printed before."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.show", description=__doc__)
    parser.add_argument("--shots", type=int, default=1000, metavar="N", help="shots of 100 frames (1000)")
    parser.add_argument("--chunk", type=int, default=50, metavar="N", help="frames of a paint task (50)")
    parser.add_argument("--workers", default="1,4,16,64,256", metavar="N,N")
    parser.add_argument("--recorded", type=Path, metavar="RENDERS", help="use the recorded times of this show instead")
    parser.add_argument("--trouble", default=",".join(TROUBLES), metavar="KIND,KIND", help="none, workers, scheduler")
    parser.add_argument("--draw", type=Path, metavar="LINES", help="only draw lines that were printed before, as SVG")
    parser.add_argument("--film", action="store_true", help="only estimate the hours of a feature film")
    asked = parser.parse_args(words)
    times = recorded_times(asked.recorded) if asked.recorded else json.loads(RECORDED.read_text())["seconds"]
    if asked.draw:
        print(svg([json.loads(line) for line in asked.draw.read_text().splitlines()]))
        return 0
    if asked.film:
        print("\n".join(film_lines(times, asked.chunk)))
        return 0
    clock.install()
    import dask
    import distributed  # Dask sets its own log levels

    logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)

    tasks = tasks_of_show(asked.shots, asked.chunk)
    found = []
    with dask.config.set(QUIET), tempfile.TemporaryDirectory() as folder:
        for workers in map(int, asked.workers.split(",")):
            for trouble in asked.trouble.split(","):
                place = Path(folder) / f"{workers}-{trouble}"
                with asyncio.Runner(loop_factory=clock.SkippingLoop) as runner:
                    passed = runner.run(pass_show(tasks, workers, times, place, trouble))
                print(json.dumps({**asdict(passed), "ratio": round(passed.ratio, 3)}), flush=True)
                found.append(passed)
    return int(any(passed.lost for passed in found))


if __name__ == "__main__":
    from benchmarks.scaling import show  # the name by which workers import it

    sys.exit(show.main(sys.argv[1:]))
