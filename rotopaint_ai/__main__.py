"""`python -m rotopaint_ai` is the `rotopaint` command."""

from __future__ import annotations

import sys

from rotopaint_ai.cli import main

if __name__ == "__main__":
    sys.exit(main())
