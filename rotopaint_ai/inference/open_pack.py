"""What the process of `proof` does: open every model of the pack in a folder and run it once, within bounds."""

from __future__ import annotations

import contextlib
import sys

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.inference import limits
from rotopaint_ai.inference.models import open_detector, open_landmarks, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.inference.proof import REFUSED


def main(folder: str) -> int:
    """Open a pack; what is wrong with it goes to the standard error in one line."""
    _bound_memory()
    try:
        pack = load_pack(folder, is_proven=True)
        open_models(pack, device="cpu", threads=1)
        if pack.int8_path is not None:
            open_landmarks(pack, device="cpu", threads=1)
        open_detector(pack)
    except RotopaintError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


def _bound_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limits.MOST_BYTES, limits.MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
