"""`python -m rotopaint_ai.stage DATASET --characters N`: make training data on the puppet stage."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Make a data set and say how far it is."""
    parser = argparse.ArgumentParser(prog="python -m rotopaint_ai.stage", description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--characters", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    try:
        from rotopaint_ai.stage.dataset import Order, make_dataset
    except ImportError as error:
        sys.stderr.write(f"the stage needs {error.name}: pip install 'rotopaint-ai[train]'\n")
        return 2

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done}/{total} characters")

    count = make_dataset(
        options.dataset, Order(options.characters, options.seed, workers=options.workers), progress=progress
    )
    sys.stderr.write(f"\n{count} samples in {options.dataset}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
