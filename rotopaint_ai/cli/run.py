"""`rotopaint run`: the whole pipeline on one plate."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from rotopaint_ai import fills
from rotopaint_ai.cli.shared import (
    add_overwrite,
    add_plate_arguments,
    fill_named,
    one_thread_per_frame,
    say,
    split_range,
    text_given,
)
from rotopaint_ai.frames import n_frames
from rotopaint_ai.jobs import Device, RunJob
from rotopaint_ai.watch import watch_work

N_NAMED = 3  # number of frames that the summary names
EXIT_CODES = (
    "exit codes: 0 all done; 2 wrong use or input; 3 some frames failed, are missing or show no face; "
    "5 disk error; 130 stopped, --resume continues"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.epilog = EXIT_CODES
    add_plate_arguments(parser)
    parser.add_argument(
        "--crop",
        action="append",
        metavar="X,Y,W,H",
        help="box around the face in plate pixels; repeat as FRAME:X,Y,W,H; 'auto' proposes one",
    )
    parser.add_argument(
        "--out", type=text_given, required=True, metavar="DIR", help="folder for everything that is written"
    )
    add_line_arguments(parser)
    parser.add_argument("--no-clean", action="store_true", help="write no clean plates")
    parser.add_argument("--patch", action="store_true", help="also write the paint as premultiplied RGBA to DIR/patch")
    add_overwrite(parser)
    parser.add_argument(
        "--force",
        action="store_true",
        help="also paint where the model doubts that there is a face, and take other pictures in another folder as "
        "the project's shot rendered anew",
    )
    parser.add_argument("--resume", action="store_true", help="continue a stopped run of the same job")
    parser.add_argument(
        "--project",
        metavar="FILE",
        help="project file: its crops, human keys and seam settings are kept, corrected seams improve the others, and "
        "the results are saved in it",
    )
    parser.add_argument(
        "--leave-project", action="store_true", help="only read the project; another program takes the results from DIR"
    )
    parser.add_argument(
        "--face",
        metavar="NAME",
        help="with --project: the face to run, with its pack; a new name adds a face",
    )


def add_line_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `run` and `demo` share."""
    parser.add_argument(
        "--model", type=text_given, metavar="PACK", help="model pack: a folder or the name of an installed one"
    )
    parser.add_argument(
        "--export",
        default="nuke",
        metavar="FORMAT,...",
        help="exchange files beside shapes.roto.json and shapes.nk: " + ", ".join(_written_formats()),
    )
    parser.add_argument(
        "--method", type=fill_named, choices=fills.names(), default=fills.DEFAULT, help="how seams are painted out"
    )
    parser.add_argument("--device", choices=get_args(Device), default="auto", help="device on which the models run")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="number of threads (default: 0, every core)"
    )
    parser.add_argument(
        "--reduce-keys",
        type=float,
        default=0.0,
        metavar="PX",
        help="reduce keys as far as the curves move by at most PX",
    )
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def _written_formats() -> list[str]:
    """The formats that `--export` accepts."""
    from rotopaint_ai.exchange.formats import FORMATS

    return [each.name.lower() for each in FORMATS if each.write is not None and each.name != "RotoPaint"]


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    split_range(arguments)
    job = RunJob(
        plates=arguments.plates,
        out=arguments.out,
        crops=tuple(arguments.crop or ()),
        model=arguments.model or _pack_of_face(arguments.project, arguments.face),
        frames=arguments.frames,
        exports=split_names(arguments.export),
        clean=not arguments.no_clean,
        method=arguments.method,
        patch=arguments.patch,
        device=arguments.device,
        threads=arguments.threads,
        colourspace=arguments.colourspace,
        key_tolerance_px=arguments.reduce_keys,
        resume=arguments.resume,
        project=arguments.project,
        leave_project=arguments.leave_project,
        overwrite=arguments.overwrite,
        force=arguments.force,
        face=arguments.face,
    )
    return do(job, events=arguments.events)


def _pack_of_face(project: str | None, face: str | None) -> str | None:
    """The pack of the face's last run, where the project has one."""
    from rotopaint_ai.pipeline.overrides import read_inputs

    return read_inputs(Path(project), face).pack if project is not None and face is not None else None


def split_names(text: str) -> tuple[str, ...]:
    """Formats from `nuke,svg`; `nuke` is one unless there are none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(("nuke", *names))) if names else ()


def do(job: RunJob, *, events: bool) -> int:
    """Run a job, with output for a person or as events; returns the exit code."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    one_thread_per_frame()
    from rotopaint_ai.pipeline.run import run

    with watch_work(events=events) as (sink, cancel):
        outcome = run(job, sink, cancel)
    if not events:
        without = f", {n_frames(len(outcome.lost))} without a face" if outcome.lost else ""
        first = f"; look first at {_frames_with_shapes(outcome.worst)}" if len(outcome.done) > 1 else ""
        say(f"{n_frames(len(outcome.done))} done{without}{first}{_least_seen(outcome.unseen)}; open {outcome.report}")
    return OK if outcome.is_whole else FRAMES_FAILED


def _least_seen(places: Mapping[str, str]) -> str:
    """The third of a seam that is most often the least visible: `; and at seam_left, upper third, on 1012-1016`."""
    place, frames = next(iter(places.items()), ("", ""))
    return f"; and at {place}, on {frames}" if place else ""


def _frames_with_shapes(worst: Mapping[int, str | None]) -> str:
    """The first of the worst frames, each with its shape: `1007 (seam_left), 1019`."""
    return ", ".join(f"{frame} ({shape})" if shape else str(frame) for frame, shape in list(worst.items())[:N_NAMED])
