"""Arguments and helpers that several commands share."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterable
from typing import TextIO

from rotopaint_ai import fills
from rotopaint_ai.errors import UsageError, in_one_line
from rotopaint_ai.jobs import check_threads, n_cores


def add_work_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for threads and events."""
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="number of threads (default: 0, every core)"
    )
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def text_given(text: str) -> str:
    """Type of an argument that names a file, a folder or a pack: an unset variable of a shell is no name.

    Raises: argparse.ArgumentTypeError for an empty text.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; is a variable unset?")
    return text


def fill_named(text: str) -> str:
    """Type of `--method`: the current name of a fill; a removed one is replaced, with a line on stderr."""
    current = fills.current(text)
    if current != text:
        say(f"--method {text}: was removed, {current} paints instead", sys.stderr)
    return current


_NUKE_RANGE = re.compile(r"(?P<pattern>.*\S)\s+(?P<frames>-?\d+(-\d+)?)", re.DOTALL)


def add_plate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the plate and its frames."""
    parser.add_argument(
        "plates", type=text_given, metavar="PLATES", help="pattern (plate.####.exr), folder, one image or movie"
    )
    parser.add_argument("--frames", metavar="A-B,C", help="use only these frames")
    parser.add_argument(
        "--colourspace",
        "--colorspace",
        dest="colourspace",
        metavar="NAME",
        help="colour space of the plate, if its file states a wrong one",
    )


def split_range(arguments: argparse.Namespace) -> None:
    """Split the range off a plate in the form that Nuke copies, `plate.####.exr 1001-1024`; --frames overrides it."""
    match = _NUKE_RANGE.fullmatch(arguments.plates)
    if match is not None and not os.path.exists(arguments.plates):
        arguments.plates = match["pattern"]
        arguments.frames = arguments.frames or match["frames"]


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for workers and clusters."""
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="number of Dask processes on this machine (1)"
    )
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="use the workers of a Dask cluster, such as tcp://scheduler:8786"
    )


def check_cluster_arguments(arguments: argparse.Namespace) -> None:
    """Raise UsageError for wrong numbers of workers."""
    if not 1 <= arguments.workers <= 64:
        raise UsageError(f"--workers {arguments.workers}: wanted 1 to 64 processes")
    if arguments.cluster and arguments.workers > 1:
        raise UsageError("--workers: a cluster has its own workers; leave this out with --cluster")


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the argument that allows writing into a folder of another plate or job."""
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="write into DIR although it belongs to another job, and over files that this program did not write",
    )


def one_thread_per_frame() -> None:
    """Limit libraries to one thread per frame; must be called before numpy is imported.

    Frames are processed in parallel, one thread each. Additional BLAS and OpenCV threads would wait for each other in
    busy loops: 15 to 20 % of a run's processor time at 1080p on two cores.
    """
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import cv2

    cv2.setNumThreads(1)


def n_threads(asked: int) -> int:
    """The number of threads: as given, or one per core available to this process. Raises UsageError."""
    check_threads(asked)
    return asked or n_cores()


def exit_code(failed: Collection[int]) -> int:
    """0, or 3 where frames failed."""
    from rotopaint_ai.cli import FRAMES_FAILED, OK

    return FRAMES_FAILED if failed else OK


def print_warnings(lines: Iterable[str]) -> None:
    """Print losses and doubts on stderr; similar lines are joined to one with a count."""
    from rotopaint_ai.exchange.lossiness import group_lines

    for line in group_lines(lines):
        say(f"warning: {line}", sys.stderr)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print one line, by default on stdout; line breaks and terminal codes in names of files and shapes are removed."""
    print(in_one_line(text), file=stream, flush=True)


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the plate's size and a script's node, for shapes of any format."""
    parser.add_argument("--width", type=int, metavar="PX", help="the plate's width; overrides what the shapes state")
    parser.add_argument("--height", type=int, metavar="PX", help="the plate's height; overrides what the shapes state")
    parser.add_argument("--node", metavar="NAME", help="read only this node of a Nuke script")


def size_given(arguments: argparse.Namespace) -> tuple[int, int] | None:
    """The size on the command line, or None. Raises UsageError where only one side is given."""
    from rotopaint_ai.exchange.formats import check_size_options

    check_size_options(arguments.width, arguments.height)
    return None if arguments.width is None else (arguments.width, arguments.height)


def require_training() -> None:
    """Raise UsageError, which tells the install command, where the packages for training are missing."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("training needs PyTorch; install it with: pip install 'rotopaint-ai[train]'")
