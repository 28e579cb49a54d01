"""Keys after reduction over one key a frame (goal G9): `python benchmarks/keys_reduction.py --help`."""

from __future__ import annotations

import sys

from rotopaint_ai.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "keys", *sys.argv[1:]]))
