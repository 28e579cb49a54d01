"""`rotopaint clean`: paint the seams of shapes, or what lies under somebody's mattes, away."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rotopaint_ai.cli.shared import add_work_arguments, exit_code, n_threads, one_thread_per_frame
from rotopaint_ai.cli.watch import choose_sink, stopping_on_signals
from rotopaint_ai.errors import UsageError
from rotopaint_ai.jobs import Cancel, FillMethod

if TYPE_CHECKING:
    from rotopaint_ai.pipeline.paint import CleanJob
    from rotopaint_ai.plates.plate import Plate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.add_argument("plates", metavar="PLATES", help="pattern (plate.####.exr), folder, one image or movie")
    parser.add_argument(
        "shapes", metavar="SHAPES", nargs="?", help="shapes.roto.json, or another shape format; --mattes can do without"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="clean plates are written to DIR/clean")
    parser.add_argument("--method", choices=get_args(FillMethod), default="auto", help="how seams are painted away")
    parser.add_argument("--model", metavar="PACK", help="model pack whose learned fill is used; the shipped one")
    parser.add_argument(
        "--mattes", metavar="PATTERN", help="somebody else's mattes, of the plate's size, instead of the shapes' own"
    )
    parser.add_argument("--patch", action="store_true", help="also write the paint as premultiplied RGBA to DIR/patch")
    parser.add_argument(
        "--settings", metavar="FILE", help='JSON: {"<seam>": {"method": ..., "grain": 0..1, "strength": 0..1}, ...}'
    )
    parser.add_argument("--touchup", metavar="FILE", help="clone strokes by frame, as the panel writes them")
    parser.add_argument(
        "--measure-widths", action="store_true", help="make each seam as wide as its banks show, frame by frame"
    )
    parser.add_argument("--frames", metavar="A-B,C", help="these frames only")
    parser.add_argument("--colourspace", metavar="NAME", help="colour space of the plate, where the file is wrong")
    add_work_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    if arguments.shapes is None and arguments.mattes is None:
        raise UsageError("clean: wants SHAPES, or --mattes PATTERN, to know where the seams are")
    one_thread_per_frame()
    from rotopaint_ai.pipeline.paint import paint_clean
    from rotopaint_ai.plates import open_plate

    threads = n_threads(arguments.threads)
    cancel = Cancel()
    with open_plate(arguments.plates, colourspace=arguments.colourspace) as plate, stopping_on_signals(cancel):
        job = _job(arguments, plate)
        sink = choose_sink(events=arguments.events, cancel=cancel)
        painted = paint_clean(plate, job, threads=threads, sink=sink, cancel=cancel)
    if not arguments.events:
        print(f"{len(painted.done)} clean frames written to {Path(arguments.out) / 'clean'}")
    return exit_code(painted.failed)


def _job(arguments: argparse.Namespace, plate: Plate) -> CleanJob:
    from rotopaint_ai.exchange.formats import read
    from rotopaint_ai.inference.models import open_fill
    from rotopaint_ai.inference.pack import load_pack
    from rotopaint_ai.pipeline.lent import LentMattes
    from rotopaint_ai.pipeline.paint import CleanJob
    from rotopaint_ai.pipeline.settings import Paint, Paints, read_settings
    from rotopaint_ai.seams import strokes

    every = Paint(arguments.method)
    paints = read_settings(Path(arguments.settings), every) if arguments.settings else Paints(every)
    document = None
    if arguments.shapes is not None:
        document, _ = read(arguments.shapes, width=plate.width, height=plate.height)
    methods = {every.method, *(paint.method for paint in paints.by_name.values())}
    return CleanJob(
        out=Path(arguments.out),
        document=document,
        mattes=LentMattes.open(arguments.mattes, plate) if arguments.mattes else None,
        paints=paints,
        model=open_fill(load_pack(arguments.model)) if methods - {"two-bank", "telea"} else None,
        frames=arguments.frames,
        patch=arguments.patch,
        measures_widths=arguments.measure_widths,
        strokes=strokes.read(Path(arguments.touchup)) if arguments.touchup else {},
    )
