"""What exchange files cost, over their size: `python benchmarks/exchange.py --help`."""

from __future__ import annotations

import sys

from rotopaint_ai.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "exchange", *sys.argv[1:]]))
