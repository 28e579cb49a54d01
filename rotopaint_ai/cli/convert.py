"""`rotopaint convert`: between shape formats, chosen by suffix."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from rotopaint_ai.cli.shared import print_warnings, say
from rotopaint_ai.cli.watch import choose_sink
from rotopaint_ai.jobs import Cancel, Event, Sink


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _listing()
    parser.add_argument("source", metavar="IN", nargs="?", help="shapes in any format that can be read")
    parser.add_argument("target", metavar="OUT", nargs="?", help="where to write them; the suffix chooses the format")
    parser.add_argument("--width", type=int, metavar="PX", help="the plate's width; overrides what IN states")
    parser.add_argument("--height", type=int, metavar="PX", help="the plate's height; overrides what IN states")
    parser.add_argument("--node", metavar="NAME", help="this node of a Nuke script only")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="frames to add to every frame number")
    parser.add_argument("--pixel-aspect", type=float, metavar="A", help="the plate's, where IN does not tell")
    parser.add_argument("--fps", type=float, metavar="F", help="the plate's frame rate, where IN does not tell")
    parser.add_argument("--bands", action="store_true", help="write strokes as closed outlines of their width")
    parser.add_argument("--scripts", metavar="DIR", help="write the scripts that other programs run to give us masks")


def _listing() -> str:
    """What is read and written, a line for each format."""
    from rotopaint_ai.exchange.formats import FORMATS

    rows = []
    for each in FORMATS:
        ways = ("reads" if each.read else "") + (" and " if each.read and each.write else "")
        ways += "writes" if each.write else ""
        rows.append(f"  {each.name:12}  {' '.join(each.suffixes):22}  {ways:16}  {each.about}")
    return "formats:\n" + "\n".join(rows)


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.exchange.formats import convert

    if arguments.scripts is not None:
        _write_scripts(Path(arguments.scripts))
    if arguments.source is None or arguments.target is None:
        if arguments.scripts is not None and arguments.source is None:
            return 0
        raise UsageError("give IN and OUT; 'rotopaint convert --help' lists the formats")
    sink = choose_sink(events=False, cancel=Cancel())
    try:
        done = convert(
            arguments.source,
            arguments.target,
            width=arguments.width,
            height=arguments.height,
            offset=arguments.offset,
            pixel_aspect=arguments.pixel_aspect,
            fps=arguments.fps,
            bands=arguments.bands,
            node=arguments.node,
            tell=_teller(Path(arguments.target).name, sink),
        )
    finally:  # the bar is taken away, also where it fails
        sink(Event("finished", {}))
    print_warnings(done.losses)
    size = f"{done.n_shapes} shapes, {done.n_keys} keys"
    say(f"{done.path}: {size}; read back, largest distance {done.max_error_px:.4f} px")
    return 0


def _teller(name: str, sink: Sink) -> Callable[[int, int], None]:
    """Tells the sink how many frames of a file are done, with the time to go by those."""
    started = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal started
        if not done:
            started = time.monotonic()
            sink(Event("started", {"name": name, "total": total, "done": 0}))
            return
        left_s = (time.monotonic() - started) / done * (total - done)
        sink(Event("progress", {"done": done, "total": total, "eta_s": round(left_s, 1)}))

    return tell


def _write_scripts(folder: Path) -> None:
    from rotopaint_ai.exchange.formats import host_scripts
    from rotopaint_ai.files import write_text

    for name, text in host_scripts().items():
        write_text(folder / name, text)
        say(str(folder / name))
