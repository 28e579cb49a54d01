"""What ranks leave in a folder for whoever started them: why all of them must end, or why one was lost.

A rank that must end for a reason which starting again cannot mend ends well, so that the launcher starts nobody again;
the others follow when they find the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from rotopaint_ai.files import write_json

FOLDER = "ROTOPAINT_RANK_WORDS"
LAST, LOST = "last", "lost"


def folder_of(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where this rank leaves its words; None where nobody asked for them."""
    return Path(environment[FOLDER]) if environment.get(FOLDER) else None


def may_be_mended(error: BaseException) -> bool:
    """Whether starting all ranks again may help: another rank was lost, which PyTorch tells by a RuntimeError."""
    return isinstance(error, RuntimeError | ConnectionError)


def leave(folder: Path, kind: str, text: str, code: int) -> None:
    """Leave the reason and the exit code that it means."""
    write_json(folder / f"{kind}.{os.environ.get('RANK', '0')}.json", {"text": text, "code": code})


def left(folder: Path, kind: str) -> tuple[str, int] | None:
    """The reason that the first of the ranks left, with its exit code."""
    for path in sorted(folder.glob(f"{kind}.*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        return str(content["text"]), int(content["code"])
    return None
