"""PyTorch's launcher without its log and traceback; it takes torchrun's arguments.

What a person has to know, the ranks leave (`launch.py`) and whoever started the launcher tells. Asked to stop, it asks
the ranks, who end after their step, and waits half a minute for them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any, cast


def main(words: Sequence[str]) -> int:
    """Run the ranks; 0 where all ended well, 1 where they were lost too often, 130 where the launcher was stopped."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    logging.disable(logging.ERROR)
    try:
        cast(Any, run)(cast(Any, parse_args)(list(words)))
    except ChildFailedError:
        return 1
    except SignalException:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
