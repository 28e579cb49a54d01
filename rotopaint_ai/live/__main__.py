"""`python -m rotopaint_ai.live`: the live engine on its standard input and output, until the input ends."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests line by line until the input ends."""
    from rotopaint_ai.errors import RotopaintError
    from rotopaint_ai.live import wire
    from rotopaint_ai.live.engine import LiveEngine, parse

    folder = wire.make_folder()

    def tell(facts: Mapping[str, Any]) -> None:
        answers.write(wire.line(facts))
        answers.flush()

    engine = LiveEngine(folder, tell)
    try:
        for text in requests:
            try:
                answer = engine.answer(parse(text))
            except RotopaintError as error:
                answer = {"id": None, "error": str(error)}
            tell(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the panel has ended
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Serve requests. Output of libraries goes to standard error, so that it does not mix with the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
