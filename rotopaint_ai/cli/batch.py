"""`rotopaint batch`: the shots of a show, shared by any number of workers on any number of machines."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rotopaint_ai.cli.shared import one_thread_per_frame
from rotopaint_ai.cli.watch import choose_sink, stopping_on_signals
from rotopaint_ai.errors import UsageError
from rotopaint_ai.jobs import Cancel

if TYPE_CHECKING:
    from rotopaint_ai.batch.jobs_file import Show
    from rotopaint_ai.batch.work import Planned

KINDS = ("track", "paint", "gather", "summary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.epilog = (
        "Start it again to go on after a stop or a failure, or on more machines that share the disk: no task is done "
        "twice. Exit codes: 0 all shots done; 2 wrong use; 3 frames or shots failed; 130 stopped"
    )
    parser.add_argument("jobs", metavar="JOBS", help="YAML file of shots (docs/batch.md)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes on this machine (1)")
    parser.add_argument("--shot", metavar="NAME", help="one task only: its shot")
    parser.add_argument("--task", choices=KINDS, help="one task only: its kind, for a farm")
    parser.add_argument("--frames", metavar="A-B", help="one task only: the paint tasks that begin in a range")
    parser.add_argument("--openjd", metavar="FILE", help="write an Open Job Description template and do nothing else")
    parser.add_argument(
        "--farm-chunks",
        action="store_true",
        help="with --openjd: each shot's frames as one range that the farm divides (extension TASK_CHUNKING)",
    )
    parser.add_argument("--again", action="store_true", help="try again what was given up before")
    parser.add_argument("--second", action="store_true", help=argparse.SUPPRESS)  # beside another worker, which tells
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    one_thread_per_frame()
    from rotopaint_ai.batch.jobs_file import read_show
    from rotopaint_ai.batch.work import plan_show

    if not 1 <= arguments.workers <= 64:
        raise UsageError(f"--workers {arguments.workers}: wanted 1 to 64 processes")
    show = read_show(Path(arguments.jobs))
    planned = plan_show(show)
    if arguments.openjd:
        return _write_template(show, planned, Path(arguments.openjd), chunked=arguments.farm_chunks)
    if arguments.task:
        return _one_task(show, planned, arguments)
    if arguments.again:
        for task in planned.board.tasks:
            planned.board.ledger.forgive(task)
    return _all(show, planned, arguments)


def _write_template(show: Show, planned: Planned, path: Path, *, chunked: bool) -> int:
    from rotopaint_ai.batch.openjd import write_template

    n_tasks = write_template(show, planned, path, chunked=chunked)
    print(f"{path}: {n_tasks} tasks of {len(show.names) - len(planned.refused)} shots; openjd run {path}")
    return _told(planned)


def _one_task(show: Show, planned: Planned, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.batch.summary import write_summary
    from rotopaint_ai.batch.tasks import asked_for
    from rotopaint_ai.batch.work import do_one
    from rotopaint_ai.frames import FrameRange

    if arguments.task == "summary":
        print(f"open {write_summary(show, planned)}")
        return _told(planned) or _exit_code(show, planned)  # a farm shows why its last task failed
    name = show.shot(arguments.shot).name if arguments.shot else ""
    if name in planned.refused:
        raise UsageError(planned.refused[name])
    frames = FrameRange.parse(arguments.frames) if arguments.frames else None
    tasks = asked_for(planned.board.tasks, name, arguments.task, frames)
    if tasks is None:
        key = f"{name}/{arguments.task}" + (f".{frames}" if frames else "")
        known = [task.key for task in planned.board.tasks if task.shot.name == name] or list(show.names)
        raise UsageError(f"{show.path.name}: no task '{key}'; there are {', '.join(known[:8])}")
    cancel = Cancel()
    with stopping_on_signals(cancel):
        for task in tasks:
            do_one(task, planned.board, choose_sink(events=arguments.events, cancel=cancel), cancel)
    return 0


def _all(show: Show, planned: Planned, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.batch.summary import write_summary
    from rotopaint_ai.batch.work import work

    if not arguments.second:
        _told(planned)  # now, when somebody may still be watching, and once more at the end
    cancel = Cancel()
    others = [_another(arguments) for _ in range(arguments.workers - 1)]
    try:
        with stopping_on_signals(cancel):
            work(planned.board, choose_sink(events=arguments.events, cancel=cancel), cancel)
    finally:
        for process in others:
            if cancel.requested:
                process.terminate()
            process.wait()
        page = None if arguments.second else write_summary(show, planned)
    if page is None:
        return 0
    if not arguments.events:
        print(f"open {page}")
    return _told(planned) or _exit_code(show, planned)


def _another(arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """A second worker; it finds its tasks in the ledger."""
    told = ["--events"] if arguments.events else []
    words = [sys.executable, "-m", "rotopaint_ai", "batch", arguments.jobs, "--second", *told]
    return subprocess.Popen(words, stdout=None if arguments.events else subprocess.DEVNULL)


def _told(planned: Planned) -> int:
    """Say which shots could not be begun."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    for name, message in planned.refused.items():
        print(f"rotopaint batch: {name}: {message}", file=sys.stderr)
    return FRAMES_FAILED if planned.refused else OK


def _exit_code(show: Show, planned: Planned) -> int:
    from rotopaint_ai.batch.summary import summarise_show
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    return OK if all(shot.state == "done" for shot in summarise_show(show, planned)) else FRAMES_FAILED
