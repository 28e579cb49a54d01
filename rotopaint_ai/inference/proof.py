"""A pack that this machine has not seen is first opened in a process of its own, with an end to its time and memory.

onnxruntime works some of a graph out while it opens it, and cannot be asked to stop there; a file that is made for it
may also end the process. What has opened once is remembered by the hashes of its models. Packs that ship with the
product are known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import rotopaint_ai
from rotopaint_ai.errors import PackError
from rotopaint_ai.files import user_cache
from rotopaint_ai.inference import limits

LIMIT_S = 120.0  # for a pack to open; the shipped one takes half a second
REFUSED = 2
_OPENER = "rotopaint_ai.inference.open_pack"

_known: set[str] = set()


def prove(folder: Path, files: Mapping[str, str]) -> None:
    """Open a pack's models in another process, unless that has gone well before; `files` are the hashes of its card.

    Raises: PackError.
    """
    digest = _files_digest(files)
    if digest in _known:
        return
    mark = user_cache() / "proven" / digest
    if not mark.is_file():
        _try_to_open(folder)
        with contextlib.suppress(OSError):  # a machine that remembers nothing proves again
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    _known.add(digest)


def _files_digest(files: Mapping[str, str]) -> str:
    import onnxruntime

    facts = [onnxruntime.__version__, sorted(files.items())]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _try_to_open(folder: Path) -> None:
    words = [sys.executable, "-m", _OPENER, str(folder.absolute())]
    home = Path(rotopaint_ai.__file__).parents[1]  # -m imports from where it starts, which is not the shot's folder
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(words, stdin=nothing, capture_output=True, text=True, timeout=LIMIT_S, cwd=home)
    except subprocess.TimeoutExpired:
        raise PackError(
            f"{folder}: its models have not opened within {LIMIT_S:.0f} s; export the pack again, or use another"
        ) from None
    if done.returncode == 0:
        return
    lines = done.stderr.strip().splitlines()
    if done.returncode == REFUSED and lines:
        raise PackError(lines[-1])
    raise PackError(
        f"{folder}: its models cannot be opened ({_end_words(done.returncode)}, with at most "
        f"{limits.MOST_BYTES >> 30} GB); export the pack again, or use another"
    )


def _end_words(code: int) -> str:
    """How a process ended, in words."""
    if code < 0 and -code in set(signal.Signals):
        return f"the process that tried ended by {signal.Signals(-code).name}"
    return f"the process that tried ended with {code}"
