"""The report file that an unexpected error leaves for the developers."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

from rotopaint_ai import __version__


def save_diagnostics(error: BaseException, words: Sequence[str]) -> Path:
    """Write versions, the command and the traceback to a new file in the temporary folder; returns its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="rotopaint-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
    ) as stream:
        stream.write(_report_text(error, words))
    return Path(stream.name)


def _report_text(error: BaseException, words: Sequence[str]) -> str:
    installed = sorted(f"{item.name} {item.version}" for item in distributions())
    return "\n".join(
        [
            f"rotopaint {__version__}",
            f"python {sys.version}",
            f"machine {platform.platform()}",
            f"command {list(words)}",
            "",
            "".join(traceback.format_exception(error)),
            *installed,
            "",
        ]
    )
