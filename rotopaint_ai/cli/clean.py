"""`rotopaint clean`: paint out the seams of shapes, or the areas of external mattes."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rotopaint_ai import fills
from rotopaint_ai.cli.shared import (
    add_overwrite,
    add_plate_arguments,
    add_size_arguments,
    add_work_arguments,
    exit_code,
    fill_named,
    n_threads,
    one_thread_per_frame,
    print_warnings,
    say,
    size_given,
    split_range,
    text_given,
)
from rotopaint_ai.errors import UsageError
from rotopaint_ai.frames import n_frames
from rotopaint_ai.jobs import BEGINS_ANEW, warning
from rotopaint_ai.watch import watch_work

if TYPE_CHECKING:
    from rotopaint_ai.pipeline.paint_job import CleanJob, PaintedFrames
    from rotopaint_ai.pipeline.painter import Rig
    from rotopaint_ai.pipeline.save_to_project import Repaint
    from rotopaint_ai.plates.plate import Plate
    from rotopaint_ai.seams.paint_settings import PaintTable
    from rotopaint_ai.seams.strokes import Strokes
    from rotopaint_ai.shapes.roto import RotoDocument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    add_plate_arguments(parser)
    parser.add_argument(
        "shapes",
        metavar="SHAPES",
        nargs="?",
        help="shapes.roto.json, or another shape format; optional with --mattes or --project",
    )
    parser.add_argument(
        "--out", type=text_given, required=True, metavar="DIR", help="clean plates are written to DIR/clean"
    )
    parser.add_argument(
        "--method", type=fill_named, choices=fills.names(), default=fills.DEFAULT, help="how seams are painted out"
    )
    parser.add_argument(
        "--model",
        type=text_given,
        metavar="PACK",
        help="model pack whose learned fill and hold-out are used (default: the shipped one)",
    )
    parser.add_argument(
        "--mattes",
        metavar="PATTERN",
        help="external mattes of the plate's size, used instead of mattes drawn from shapes",
    )
    parser.add_argument("--patch", action="store_true", help="also write the paint as premultiplied RGBA to DIR/patch")
    parser.add_argument(
        "--settings",
        metavar="FILE",
        help='JSON: {"<seam>": {"method": ..., "grain": 0..1, "strength": 0..1, "hold_out": true}, ...}',
    )
    parser.add_argument("--touchup", metavar="FILE", help="clone strokes by frame, as the panel writes them")
    parser.add_argument(
        "--project",
        metavar="FILE",
        help="project file; its shapes, seam settings and touch-up are used where none are given",
    )
    parser.add_argument(
        "--leave-project",
        action="store_true",
        help="do not write to the project; the program that started this one records what was painted",
    )
    parser.add_argument(
        "--measure-widths", action="store_true", help="measure the width of each seam on the plate, frame by frame"
    )
    parser.add_argument(
        "--rig", action="store_true", help="the mattes or closed shapes cover a rig of any size; fill them completely"
    )
    parser.add_argument(
        "--only", metavar="NAME,...", help='with --rig: use only these shapes; quote a name with a comma: "arm, left"'
    )
    parser.add_argument(
        "--clean-plate", metavar="PLATES", help="with --rig: a picture without the rig, or one for each frame"
    )
    add_size_arguments(parser)
    add_overwrite(parser)
    add_work_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    split_range(arguments)
    if arguments.shapes is None and arguments.mattes is None and arguments.project is None:
        raise UsageError("needs SHAPES, --project FILE or --mattes PATTERN, to know where the seams are")
    if not arguments.rig and (arguments.only or arguments.clean_plate):
        raise UsageError("--only and --clean-plate work only with --rig; add it, or leave them out")
    _refuse_unused(arguments)
    one_thread_per_frame()
    from rotopaint_ai.plates import open_plate

    with open_plate(arguments.plates, colourspace=arguments.colourspace) as plate, _project(arguments) as project:
        if arguments.frames is None and plate.named_frame is not None:
            arguments.frames = str(plate.named_frame)
        painted = _paint_plate(arguments, plate, project)
    if not arguments.events:
        say(f"clean plates of {n_frames(len(painted.done))} written to {Path(arguments.out) / 'clean'}")
    return exit_code(painted.failed)


def _refuse_unused(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that would do nothing beside others."""
    for option, is_given in (
        ("--only", bool(arguments.only)),
        ("--settings", bool(arguments.settings)),
        ("--measure-widths", arguments.measure_widths),
    ):
        if is_given and arguments.mattes:
            raise UsageError(f"{option} is for mattes drawn from shapes; leave it or --mattes out")
        if is_given and arguments.rig and option != "--only":
            raise UsageError(f"{option} is for seams; leave it or --rig out")


def _paint_plate(arguments: argparse.Namespace, plate: Plate, project: Repaint | None) -> PaintedFrames:
    from rotopaint_ai.pipeline.paint_job import paint_clean
    from rotopaint_ai.pipeline.save_to_project import compare_plate

    job, note = _clean_job(arguments, plate, project)
    other = None if project is None else compare_plate(project.inputs, arguments.project, plate)
    threads = n_threads(arguments.threads)
    # until here an interrupt ends the program at once, because an input file may be a blocking pipe
    with watch_work(events=arguments.events, hint=BEGINS_ANEW) as (sink, cancel):
        tell = sink if project is None else project.sink(sink, arguments.frames)
        for line in filter(None, (other, note)):
            tell(warning(line))
        painted = paint_clean(plate, job, threads=threads, sink=tell, cancel=cancel)
    if project is not None and _is_by_project_alone(arguments):
        project.end(painted.done)
    return painted


def _project(arguments: argparse.Namespace) -> AbstractContextManager[Repaint | None]:
    if arguments.project is None:
        return nullcontext(None)
    from rotopaint_ai.pipeline.save_to_project import open_repaint

    return open_repaint(Path(arguments.project), Path(arguments.out), leave=arguments.leave_project)


def _is_by_project_alone(arguments: argparse.Namespace) -> bool:
    """Whether everything comes from the project, and nothing on the command line overrides it."""
    others = (arguments.shapes, arguments.mattes, arguments.settings, arguments.touchup, arguments.measure_widths)
    return not any((*others, arguments.rig)) and arguments.method == fills.DEFAULT


def _clean_job(arguments: argparse.Namespace, plate: Plate, project: Repaint | None) -> tuple[CleanJob, str | None]:
    """The job, and what a user should know of the pack that paints it."""
    from rotopaint_ai.inference.models import open_fill, open_front
    from rotopaint_ai.inference.pack import load_pack
    from rotopaint_ai.pipeline.paint_job import CleanJob
    from rotopaint_ai.pipeline.painter import ExternalMattes

    document = _shapes_to_paint(arguments, plate, project)
    paints, strokes = _paints(arguments, project, document), _strokes(arguments, project)
    methods = {paints.every.method, *(paint.method for paint in paints.by_name.values())}
    needs_fill = any(fills.find_fill(name).uses_model for name in methods)
    job = CleanJob(
        out=Path(arguments.out),
        document=document,
        mattes=ExternalMattes.open(arguments.mattes, plate) if arguments.mattes else None,
        paints=paints,
        frames=arguments.frames,
        patch=arguments.patch,
        measures_widths=arguments.measure_widths,
        strokes=strokes,
        overwrite=arguments.overwrite,
        rig=_rig(arguments, plate),
    )
    if not (needs_fill or job.can_hold_out):
        return job, None
    pack = load_pack(arguments.model)
    find_front = open_front(pack) if job.can_hold_out else None
    job = replace(job, model=open_fill(pack) if needs_fill else None, find_front=find_front)
    return job, pack.note if needs_fill else None


def _rig(arguments: argparse.Namespace, plate: Plate) -> Rig | None:
    if not arguments.rig:
        return None
    from rotopaint_ai.pipeline.painter import Rig

    rows = csv.reader([arguments.only or ""], skipinitialspace=True)
    names = frozenset(name.strip() for row in rows for name in row if name.strip())
    return Rig.open(plate, names, arguments.clean_plate)


def _shapes_to_paint(arguments: argparse.Namespace, plate: Plate, project: Repaint | None) -> RotoDocument | None:
    from rotopaint_ai.exchange.formats import read

    if arguments.shapes is not None:
        given = size_given(arguments)
        width, height = given or (plate.width, plate.height)
        document, lost = read(
            arguments.shapes, width=width, height=height, node=arguments.node, override=given is not None
        )
        print_warnings(lost)
        return document
    return project.state.document if project is not None and arguments.mattes is None else None


def _paints(arguments: argparse.Namespace, project: Repaint | None, document: RotoDocument | None) -> PaintTable:
    """The fill settings: of the file, else of the project, else of the command line for every seam."""
    from rotopaint_ai.seams.paint_settings import Paint, PaintTable, read_settings

    every = Paint(arguments.method)
    if arguments.settings:
        return read_settings(Path(arguments.settings), every)
    if project is None or document is None:
        return PaintTable(every)
    seams = {shape.name for shape in document.shapes if shape.role == "seam"}
    return PaintTable(every, {name: paint for name, paint in project.inputs.work.paints.items() if name in seams})


def _strokes(arguments: argparse.Namespace, project: Repaint | None) -> Mapping[int, Strokes]:
    """The touch-up strokes: of the file, else of the project."""
    from rotopaint_ai.seams import strokes

    if arguments.touchup:
        return strokes.read(Path(arguments.touchup))
    return {} if project is None else project.inputs.work.strokes
