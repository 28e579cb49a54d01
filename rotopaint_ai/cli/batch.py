"""`rotopaint batch`: the shots of a show, shared by any number of workers on any number of machines."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotopaint_ai.cli.shared import one_thread_per_frame
from rotopaint_ai.cli.watch import TerseLines, choose_sink, stopping_on_signals
from rotopaint_ai.errors import CancelledError, RotopaintError, UsageError
from rotopaint_ai.jobs import Cancel, Sink

if TYPE_CHECKING:
    from rotopaint_ai.batch.jobs_file import Show
    from rotopaint_ai.batch.tasks import BatchTask
    from rotopaint_ai.batch.work import Board, Planned

KINDS = ("track", "paint", "gather", "summary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.epilog = (
        "Start it again to go on after a stop or a failure, or on more machines that share the disk: no task is done "
        "twice. Exit codes: 0 all shots done; 2 wrong use; 3 frames or shots failed; 130 stopped"
    )
    parser.add_argument("jobs", metavar="JOBS", help="YAML or JSON file of shots (docs/batch.md)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes on this machine (1)")
    parser.add_argument("--shot", metavar="NAME", help="this shot only")
    parser.add_argument("--task", choices=KINDS, help="one task only: its kind, for a farm")
    parser.add_argument("--frames", metavar="A-B", help="one task only: the paint tasks that begin in a range")
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="one task only: exit 0 where it fails for good, so that a farm does the other shots; the summary tells",
    )
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
    from rotopaint_ai.cli import STOPPED

    try:
        return _execute(arguments)
    except CancelledError:
        if arguments.second:
            return STOPPED  # who started it tells
        raise CancelledError("stopped because somebody asked; the same command goes on from here") from None


def _execute(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    one_thread_per_frame()
    from rotopaint_ai.batch.jobs_file import read_show
    from rotopaint_ai.batch.owner import own
    from rotopaint_ai.batch.work import plan_show

    show = read_show(Path(arguments.jobs))
    if arguments.shot:
        show.shot(arguments.shot)  # refuses one that is not there before anything is written
    if arguments.openjd:
        return _write_template(show, plan_show(show), Path(arguments.openjd), chunked=arguments.farm_chunks)
    own(show)
    if arguments.task == "summary":
        return _print_summary(show, plan_show(show))
    if arguments.task:
        return _one_task(show, plan_show(show, arguments.shot), arguments)
    return _all(show, plan_show(show), arguments)


def _check_options(arguments: argparse.Namespace) -> None:
    if not 1 <= arguments.workers <= 64:
        raise UsageError(f"--workers {arguments.workers}: wanted 1 to 64 processes")
    if arguments.task in ("track", "paint", "gather") and not arguments.shot:
        raise UsageError(f"--task {arguments.task}: wanted --shot NAME beside it")
    for name, wanted in (("frames", "task"), ("keep_going", "task"), ("farm_chunks", "openjd")):
        if getattr(arguments, name) and not getattr(arguments, wanted):
            raise UsageError(f"--{name.replace('_', '-')}: stands beside --{wanted} only; leave it out or add that")


def _write_template(show: Show, planned: Planned, path: Path, *, chunked: bool) -> int:
    from rotopaint_ai.batch.openjd import write_template

    n_tasks = write_template(show, planned, path, chunked=chunked)
    print(f"{path}: {n_tasks} tasks of {len(show.names) - len(planned.refused)} shots; openjd run {path}")
    return _report_plan(planned)


def _print_summary(show: Show, planned: Planned) -> int:
    from rotopaint_ai.batch.summary import write_summary

    print(f"open {write_summary(show, planned)}")
    return _exit_code(show, planned)  # a farm shows why its last task failed


def _one_task(show: Show, planned: Planned, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.batch.work import do_one, given_up

    name = arguments.shot
    if name in planned.refused:
        return _failed(name, planned.refused[name], arguments)
    cancel = Cancel()
    code = 0
    with stopping_on_signals(cancel):
        for task in _asked_tasks(show, planned, arguments):
            reason = given_up(task, planned.board) if arguments.keep_going else None
            if reason is None:
                reason = do_one(task, planned.board, _sink(arguments, cancel), cancel, _perform)
            if reason is not None:
                code = _failed(task.key, reason, arguments) or code
    return code


def _asked_tasks(show: Show, planned: Planned, arguments: argparse.Namespace) -> list[BatchTask]:
    from rotopaint_ai.batch.tasks import asked_for
    from rotopaint_ai.frames import FrameRange

    frames = FrameRange.parse(arguments.frames) if arguments.frames else None
    tasks = asked_for(planned.board.tasks, arguments.shot, arguments.task, frames)
    if tasks is None:
        key = f"{arguments.shot}/{arguments.task}" + (f".{frames}" if frames else "")
        known = [task.key for task in planned.board.tasks if task.shot.name == arguments.shot]
        raise UsageError(f"{show.path.name}: no task '{key}'; there are {', '.join(known[:8])}")
    return tasks


def _failed(what: str, reason: str, arguments: argparse.Namespace) -> int:
    """Say what failed for good; the exit code of a single task."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    print(f"rotopaint batch: {what}: {reason}", file=sys.stderr)
    return OK if arguments.keep_going else FRAMES_FAILED


def _all(show: Show, planned: Planned, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.batch.summary import write_summary
    from rotopaint_ai.batch.work import work

    if not arguments.second:
        _report_plan(planned)  # now, when somebody may still be watching, and once more at the end
    board = _board(planned, arguments)
    cancel = Cancel()
    others = [_another(arguments) for _ in range(arguments.workers - 1)]
    try:
        with stopping_on_signals(cancel):
            work(board, _sink(arguments, cancel), cancel, _perform)
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
    return _exit_code(show, planned, arguments.shot)


def _board(planned: Planned, arguments: argparse.Namespace) -> Board:
    """The tasks to do: of the show, or of one of its shots."""
    from rotopaint_ai.batch.work import Board

    tasks = tuple(task for task in planned.board.tasks if arguments.shot in (None, task.shot.name))
    for task in tasks if arguments.again else ():
        planned.board.ledger.forgive(task)
    return Board(tasks, planned.board.ledger)


def _perform(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Do a task; what nobody has foreseen ends its shot and not the show, and is kept for the people who mend it."""
    from rotopaint_ai.batch.work import perform_task

    try:
        return perform_task(task, sink, cancel)
    except (RotopaintError, OSError):
        raise
    except MemoryError as error:
        raise RotopaintError("out of memory; give the shot fewer threads, or the show fewer workers") from error
    except Exception as error:
        from rotopaint_ai.cli.diagnostics import save_diagnostics

        saved = save_diagnostics(error, sys.argv[1:])
        raise RotopaintError(f"{type(error).__name__}: {error}. Please send us {saved}") from error


def _sink(arguments: argparse.Namespace, cancel: Cancel) -> Sink:
    """A bar for a person who watches one worker; several would draw over each other."""
    if arguments.events or not (arguments.second or arguments.workers > 1):
        return choose_sink(events=arguments.events, cancel=cancel)
    return TerseLines(sys.stderr)


def _another(arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """A second worker; it finds its tasks in the ledger."""
    options = ["--events"] if arguments.events else []
    options += [f"--shot={arguments.shot}"] if arguments.shot else []
    words = [sys.executable, "-m", "rotopaint_ai", "batch", arguments.jobs, "--second", *options]
    return subprocess.Popen(words, stdout=None if arguments.events else subprocess.DEVNULL)


def _report_plan(planned: Planned) -> int:
    """Say which shots could not be begun."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    for name, message in planned.refused.items():
        print(f"rotopaint batch: {name}: {message}", file=sys.stderr)
    return FRAMES_FAILED if planned.refused else OK


def _exit_code(show: Show, planned: Planned, only: str | None = None) -> int:
    """Say what became of shots that are not done, each in a line; the exit code of a show, or of one shot."""
    from rotopaint_ai.batch.summary import summarise_show
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    shots = [shot for shot in summarise_show(show, planned) if only in (None, shot.name)]
    for shot in shots:
        if shot.state != "done":
            is_given_up = shot.state == "failed" and shot.name not in planned.refused
            advice = "; --again tries once more" if is_given_up else ""
            print(f"rotopaint batch: {shot.name}: {shot.trouble}{advice}", file=sys.stderr)
    return OK if all(shot.state == "done" for shot in shots) else FRAMES_FAILED
