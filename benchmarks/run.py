"""The whole job over reading and writing the same plates alone (goal P1): `python benchmarks/run.py --help`."""

from __future__ import annotations

import sys

from rotopaint_ai.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "run", *sys.argv[1:]]))
