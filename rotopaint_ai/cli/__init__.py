"""The command line: one small module per command, imported only when its command is called.

Exit codes: 0 all done; 2 wrong use or input; 3 some frames failed, are missing or show no face; 4 a pack is worse than
the pack it was compared with; 5 disk error; 130 stopped by the user. 1 is a bug in this program, or out of memory.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn, Protocol

from rotopaint_ai import __version__
from rotopaint_ai.errors import CancelledError, DiskError, RotopaintError, in_one_line

_SIGNED = re.compile(r"-\d")
OK, UNEXPECTED, WRONG_USE, FRAMES_FAILED, WORSE, DISK_REFUSED, STOPPED = 0, 1, 2, 3, 4, 5, 130

# Commands with one plate, whose pattern a shell may have expanded to file names.
PLATE_FIRST = ("run", "clean", "panel")
COMMANDS = {
    "demo": "the main job on a sample shot that ships with the package",
    "run": "landmarks, shapes, mattes, clean plate and exchange files of one plate",
    "batch": "all shots of a show, by one or many workers",
    "convert": "convert shapes between formats, chosen by suffix",
    "matte": "mattes from shapes, nothing else",
    "clean": "clean plates from shapes or mattes",
    "mine": "ground truth from finished roto",
    "train": "train a model pack from data sets",
    "evaluate": "measure a model pack on a data set",
    "publish": "copy a model pack into the shared folder of packs",
    "bench": "measure this machine",
    "panel": "the window for artists",
    "restore": "restore a damaged project from its last good copy",
}


class CommandModule(Protocol):
    """The interface of a command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command to the parser."""

    def execute(self, arguments: argparse.Namespace) -> int:
        """Execute the command; returns the exit code."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose error message is one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(WRONG_USE, f"{self.prog}: {message}; see '{self.prog} --help'\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. No traceback reaches the terminal."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    if not sys.warnoptions:  # internal warnings of libraries do not help an artist
        warnings.simplefilter("ignore")
    try:
        return _dispatch(words)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else WRONG_USE
    except (Exception, KeyboardInterrupt) as error:
        return _say_words(words, *message_and_code(error, words))


def message_and_code(error: BaseException, words: Sequence[str]) -> tuple[str, int]:
    """One line for a person about an error, and the exit code. An unexpected error is saved in a report file."""
    match error:
        case CancelledError():
            return str(error), STOPPED
        case KeyboardInterrupt():
            return "stopped", STOPPED
        case DiskError():
            return str(error), DISK_REFUSED
        case RotopaintError():
            return str(error), WRONG_USE
        case BrokenPipeError():
            return "the program that read the output has ended; stopped", STOPPED
        case OSError():
            return _disk_text(error), DISK_REFUSED
        case MemoryError():
            return "out of memory; close other programs or give --threads a smaller number", UNEXPECTED
    from rotopaint_ai.cli.diagnostics import save_diagnostics

    return f"{type(error).__name__}: {_error_line(error)}. Please send us {save_diagnostics(error, words)}", UNEXPECTED


def _dispatch(words: list[str]) -> int:
    name = words[0] if words else ""
    if name not in COMMANDS:
        return _top_level(words)
    command: CommandModule = import_module(f"rotopaint_ai.cli.{name}")  # type: ignore[assignment]
    parser = Parser(prog=f"rotopaint {name}", description=COMMANDS[name].capitalize() + ".", allow_abbrev=False)
    command.add_arguments(parser)
    given = _with_signed_values(words[1:])
    if name in PLATE_FIRST and len(given) > 1:
        from rotopaint_ai.cli.shell_words import join_files

        given = join_files(given, has_frames=name != "panel")
    return command.execute(parser.parse_args(given) if name == "bench" else _parse(parser, given))


def _parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command.

    An option may stand between two arguments, of which the second may be left out. argparse reads that in another way,
    which knows no commands of a command.
    """
    found, left = parser.parse_known_args(words)
    return parser.parse_intermixed_args(words) if left else found


def _with_signed_values(words: Sequence[str]) -> list[str]:
    """The words with values such as `-10,20,30,40` joined to their option, because they look like options."""
    joined: list[str] = []
    for word in words:
        if joined and _SIGNED.match(word) and re.fullmatch(r"--[\w-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _top_level(words: list[str]) -> int:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    parser = Parser(
        prog="rotopaint",
        usage="rotopaint COMMAND ...",
        description="Editable roto splines, seam mattes and clean plates for 3D-printed puppet faces.",
        epilog=f"commands:\n{listing}\n\n'rotopaint COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rotopaint {__version__}")
    if not words:
        parser.print_help(sys.stderr)
        return WRONG_USE
    if not words[0].startswith("-"):
        parser.error(f"no command '{words[0]}'; wanted one of {', '.join(COMMANDS)}")
    parser.parse_args(words)
    return OK


def _say_words(words: list[str], text: str, code: int) -> int:
    name = f"rotopaint {words[0]}" if words and words[0] in COMMANDS else "rotopaint"
    _quietly(lambda: print(in_one_line(f"{name}: {text}"), file=sys.stderr, flush=True))
    return code


def _open_closed_streams() -> None:
    """Open closed standard streams (`2>&-`) to the null device.

    Otherwise the next opened file would get the number of the stream, and output of libraries would go into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until the process ends


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except OSError:  # the error stream is closed too
        sys.stderr = None  # type: ignore[assignment]


def _disk_text(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or _error_line(error)}; check the disk, its space and its permissions"


def _error_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "no details"
