"""`rotopaint convert`: convert shapes between formats, chosen by suffix."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rotopaint_ai.cli.shared import print_warnings, say
from rotopaint_ai.jobs import Cancel, Event, Sink
from rotopaint_ai.watch import interrupted_by_sigterm, open_sink

if TYPE_CHECKING:
    from rotopaint_ai.exchange.format_spec import FormatSpec
    from rotopaint_ai.shapes.roto import RotoDocument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _listing()
    parser.add_argument("source", metavar="IN", nargs="?", help="shapes in any format that can be read")
    parser.add_argument("target", metavar="OUT", nargs="?", help="file to write; its suffix chooses the format")
    parser.add_argument("--width", type=int, metavar="PX", help="the plate's width; overrides what IN states")
    parser.add_argument("--height", type=int, metavar="PX", help="the plate's height; overrides what IN states")
    parser.add_argument("--node", metavar="NAME", help="read only this node of a Nuke script")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="frames to add to every frame number")
    parser.add_argument(
        "--pixel-aspect", type=float, metavar="A", help="the plate's pixel aspect, where IN does not state it"
    )
    parser.add_argument("--fps", type=float, metavar="F", help="the plate's frame rate, where IN does not state it")
    parser.add_argument("--bands", action="store_true", help="write strokes as closed outlines of their width")
    parser.add_argument(
        "--scripts",
        metavar="DIR",
        help="write the scripts that other programs run to dump their masks for this product",
    )


def _listing() -> str:
    """The formats that are read and written, one line each."""
    from rotopaint_ai.exchange.formats import FORMATS

    rows = []
    for each in FORMATS:
        ways = ("reads" if each.read else "") + (" and " if each.read and each.write else "")
        ways += "writes" if each.write else ""
        rows.append(f"  {each.name:12}  {' '.join(each.suffixes):22}  {ways:16}  {each.about}")
    return "formats:\n" + "\n".join(rows)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.exchange.formats import convert

    if arguments.scripts is not None:
        _write_scripts(Path(arguments.scripts))
    if arguments.source is None or arguments.target is None:
        if arguments.scripts is not None and arguments.source is None:
            return 0
        raise UsageError("give IN and OUT; 'rotopaint convert --help' lists the formats")
    with interrupted_by_sigterm(), open_sink(events=False, cancel=Cancel()) as sink:
        progress = _Progress(Path(arguments.target).name, sink)
        sink(Event("progress", {"task": f"reading {Path(arguments.source).name}", "eta_s": None}))
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
            begins=progress.begin,
            tell=progress.step,
        )
    print_warnings(done.losses)
    size = f"{done.n_shapes} shapes, {done.n_keys} keys"
    say(f"{done.path}: {size}; read back, largest distance {done.max_error_px:.4f} px")
    return 0


class _Progress:
    """Reports the remaining time: usual for such a document, or by finished frames where a format reports them."""

    def __init__(self, name: str, sink: Sink) -> None:
        self._task, self._sink, self._started = f"writing {name}", sink, 0.0

    def begin(self, format: FormatSpec, meant: RotoDocument) -> None:
        """Report how long writing usually takes, where that is more than a moment."""
        from rotopaint_ai.pipeline.export import expected_s

        n_frames = meant.last_frame - meant.first_frame + 1
        usual_s = expected_s([format.name], n_frames, len(meant.shapes), threads=1)
        self._sink(Event("progress", {"task": self._task, "eta_s": round(usual_s, 1) or None}))

    def step(self, done: int, total: int) -> None:
        """Report the number of finished frames."""
        if not done:
            self._started = time.monotonic()
            return
        left_s = (time.monotonic() - self._started) / done * (total - done)
        facts = {"task": self._task, "done": done, "total": total, "eta_s": round(left_s, 1)}
        self._sink(Event("progress", facts))


def _write_scripts(folder: Path) -> None:
    from rotopaint_ai.exchange.formats import host_scripts
    from rotopaint_ai.files import write_text

    for name, text in host_scripts().items():
        write_text(folder / name, text)
        say(str(folder / name))
