"""`rotopaint batch`: all shots of a show, in this process, by workers of a Dask cluster, or on a farm."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotopaint_ai.cli.shared import (
    add_cluster_arguments,
    check_cluster_arguments,
    one_thread_per_frame,
    say,
    text_given,
)
from rotopaint_ai.errors import CancelledError, ClusterError, RotopaintError, UsageError
from rotopaint_ai.jobs import Cancel, Sink
from rotopaint_ai.watch import TerseLines, choose_sink, stopping_on_signals

if TYPE_CHECKING:
    from rotopaint_ai.batch.jobs_file import Show
    from rotopaint_ai.batch.show_plan import ShowPlan
    from rotopaint_ai.batch.tasks import BatchTask

KINDS = ("track", "paint", "gather", "summary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.epilog = (
        "Start it again to continue after a stop or a failure; finished tasks are not repeated. Exit codes: 0 all "
        "shots done; 2 wrong use; 3 frames or shots failed; 130 stopped"
    )
    parser.add_argument("jobs", type=text_given, metavar="JOBS", help="YAML or JSON file of shots (docs/batch.md)")
    add_cluster_arguments(parser)
    parser.add_argument("--shot", metavar="NAME", help="do only this shot")
    parser.add_argument("--task", choices=KINDS, help="do only one task of this kind, for a farm")
    parser.add_argument("--frames", metavar="A-B", help="with --task: the paint tasks that begin in this range")
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="with --task: exit 0 even if the task finally fails, so that a farm goes on; the summary reports it",
    )
    parser.add_argument("--openjd", metavar="FILE", help="write an Open Job Description template and do nothing else")
    parser.add_argument(
        "--farm-chunks",
        action="store_true",
        help="with --openjd: give each shot's frames as one range, which the farm divides (extension TASK_CHUNKING)",
    )
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    try:
        return _execute(arguments)
    except CancelledError:
        raise CancelledError("stopped on request; the same command goes on from here") from None


def _execute(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    one_thread_per_frame()
    from rotopaint_ai.batch.jobs_file import read_show
    from rotopaint_ai.batch.show_plan import plan_show
    from rotopaint_ai.batch.summary import claim_show_folder

    show = read_show(Path(arguments.jobs).absolute())  # absolute, for workers in other folders
    if arguments.shot:
        show.shot(arguments.shot)  # refuses a missing file before anything is written
    if arguments.openjd:
        return _write_show_template(show, plan_show(show), Path(arguments.openjd), chunked=arguments.farm_chunks)
    claim_show_folder(show)
    if arguments.task == "summary":
        return _print_summary(show, plan_show(show))
    if arguments.task:
        return _one_task(show, plan_show(show, arguments.shot), arguments)
    return _all(show, plan_show(show), arguments)


def _check_options(arguments: argparse.Namespace) -> None:
    check_cluster_arguments(arguments)
    if arguments.task and (arguments.cluster or arguments.workers > 1):
        raise UsageError("--task: this process does the task itself; leave --cluster and --workers out")
    if arguments.task in ("track", "paint", "gather") and not arguments.shot:
        raise UsageError(f"--task {arguments.task}: needs --shot NAME too")
    for name, wanted in (("frames", "task"), ("keep_going", "task"), ("farm_chunks", "openjd")):
        if getattr(arguments, name) and not getattr(arguments, wanted):
            raise UsageError(f"--{name.replace('_', '-')}: works only with --{wanted}; leave it out or add that")


def _write_show_template(show: Show, plan: ShowPlan, path: Path, *, chunked: bool) -> int:
    from rotopaint_ai.batch.openjd import write_template

    n_tasks = write_template(show, plan, path, chunked=chunked)
    say(f"{path}: {n_tasks} tasks of {len(show.names) - len(plan.refused)} shots; openjd run {path}")
    return _report_plan(plan)


def _print_summary(show: Show, plan: ShowPlan) -> int:
    from rotopaint_ai.batch.summary import write_summary

    say(f"open {write_summary(show, plan)}")
    return _exit_code(show, plan)  # a farm shows the output of its last task


def _one_task(show: Show, plan: ShowPlan, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.batch.attempt import do_one

    name = arguments.shot
    if name in plan.refused:
        return _report_lost_task(name, plan.refused[name], arguments)
    cancel = Cancel()
    code = 0
    with stopping_on_signals(cancel):
        for task in _asked_tasks(show, plan, arguments):
            reason = plan.blocking_failure(task) if arguments.keep_going else None
            if reason is None:
                plan.check_ready(task)
                reason = do_one(task, plan.notes, _perform, _sink(arguments, cancel), cancel)
            if reason is not None:
                code = _report_lost_task(task.key, reason, arguments) or code
    return code


def _asked_tasks(show: Show, plan: ShowPlan, arguments: argparse.Namespace) -> list[BatchTask]:
    from rotopaint_ai.batch.tasks import select_tasks
    from rotopaint_ai.frames import FrameRange

    frames = FrameRange.parse(arguments.frames) if arguments.frames else None
    tasks = select_tasks(plan.tasks, arguments.shot, arguments.task, frames)
    if tasks is None:
        key = f"{arguments.shot}/{arguments.task}" + (f".{frames}" if frames else "")
        known = [task.key for task in plan.of_shot(arguments.shot)]
        raise UsageError(f"{show.path.name}: no task '{key}'; there are {', '.join(known[:8])}")
    return tasks


def _report_lost_task(what: str, reason: str, arguments: argparse.Namespace) -> int:
    """Report a task that finally failed; returns the exit code of a single task."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    say(f"rotopaint batch: {what}: {reason}", sys.stderr)
    return OK if arguments.keep_going else FRAMES_FAILED


def _all(show: Show, plan: ShowPlan, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.batch.summary import write_summary
    from rotopaint_ai.cli import FRAMES_FAILED

    _report_plan(plan)  # now, while somebody may be watching, and again at the end
    write_summary(show, plan)
    cancel = Cancel()
    gone = None
    try:
        with stopping_on_signals(cancel):
            _work(plan, arguments, cancel)
    except ClusterError as error:
        gone = error
    finally:
        page = write_summary(show, plan)
    if gone is not None:
        say(f"rotopaint batch: {gone}", sys.stderr)
        return FRAMES_FAILED
    if not arguments.events:
        say(f"open {page}")
    return _exit_code(show, plan, arguments.shot)


def _work(plan: ShowPlan, arguments: argparse.Namespace, cancel: Cancel) -> None:
    """Do the remaining tasks, here or on Dask."""
    tasks, sink = plan.unfinished(arguments.shot), _sink(arguments, cancel)
    if not arguments.cluster and arguments.workers == 1:
        from rotopaint_ai.batch.attempt import work_here

        work_here(tasks, plan.notes, _perform, sink, cancel)
        return
    from rotopaint_ai.batch.cluster import connect_cluster, work_on

    with connect_cluster(arguments.cluster, arguments.workers) as client:
        say(f"dashboard: {client.dashboard_link}", sys.stderr)
        work_on(client, tasks, plan.notes, _perform, sink, cancel)


def _perform(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Do a task. An unexpected error ends only its shot, not the show, and is saved in a report file."""
    from rotopaint_ai.batch.attempt import perform_task

    one_thread_per_frame()  # on a worker too
    try:
        return perform_task(task, sink, cancel)
    except (RotopaintError, OSError):
        raise
    except MemoryError as error:
        raise RotopaintError("out of memory; give the shot fewer threads, or the show fewer workers") from error
    except Exception as error:
        from rotopaint_ai.cli.diagnostics import save_diagnostics

        saved = save_diagnostics(error, ["batch", task.key])
        raise RotopaintError(f"{type(error).__name__}: {error}. Please send us {saved}") from error


def _sink(arguments: argparse.Namespace, cancel: Cancel) -> Sink:
    """The sink for events: a bar only for a single worker, because several bars would overwrite each other."""
    if arguments.events or not (arguments.cluster or arguments.workers > 1):
        return choose_sink(events=arguments.events, cancel=cancel)
    return TerseLines(sys.stderr)


def _report_plan(plan: ShowPlan) -> int:
    """Print the shots that cannot be started."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    for name, message in plan.refused.items():
        say(f"rotopaint batch: {name}: {message}", sys.stderr)
    return FRAMES_FAILED if plan.refused else OK


def _exit_code(show: Show, plan: ShowPlan, only: str | None = None) -> int:
    """Print a line for each unfinished shot; returns the exit code of a show, or of one shot."""
    from rotopaint_ai.batch.summary import summarise_show
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    shots = [shot for shot in summarise_show(show, plan) if only in (None, shot.name)]
    for shot in shots:
        if shot.state != "done":
            say(f"rotopaint batch: {shot.name}: {shot.trouble}", sys.stderr)
    return OK if all(shot.state == "done" for shot in shots) else FRAMES_FAILED
