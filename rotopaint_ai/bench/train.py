"""Training speed: steps per second of stock PyTorch against ours, and of one rank against several (goals P2 and P7).

With data sets it also runs a race: the time to the same validation error, the shipped recipe against a stock one."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this kind to the parser."""
    parser.add_argument(
        "datasets",
        nargs="*",
        metavar="DATASET",
        help="also run the race on these data sets: the time to the same validation error",
    )
    parser.add_argument("--minutes", type=float, default=1.25, metavar="M", help="processor minutes of our side (1.25)")
    parser.add_argument(
        "--times", type=float, default=12.0, metavar="X", help="the stock side may take up to X times as long (12)"
    )
    parser.add_argument(
        "--cold",
        type=float,
        default=0.0,
        metavar="X",
        help="also run our recipe without a start pack, for up to X times as long",
    )
    parser.add_argument(
        "--every",
        type=float,
        metavar="S",
        help="processor seconds between evaluations (default: a twelfth of --minutes)",
    )
    parser.add_argument(
        "--workers", type=int, default=0, metavar="N", help="processes of the stock side's DataLoader (0)"
    )
    parser.add_argument("--recipe", metavar="FILE.yaml", help="recipe of the race, as for 'rotopaint train'")
    parser.add_argument(
        "--set", action="append", default=[], metavar="key=value", help="change a value of the recipe; may be repeated"
    )
    parser.add_argument("--init", metavar="PACK", help="pack from which our side starts (default: the shipped one)")
    parser.add_argument("--plot", metavar="FILE.svg", help="write the curves of the race as a picture")
    parser.add_argument("--steps", type=int, default=12, metavar="N", help="steps per measurement (12)")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="crops per step and rank (32)")
    parser.add_argument("--size", type=int, default=256, metavar="PX", help="side of the crops, pixels (256)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of steps (3); 0 runs only the race")
    parser.add_argument(
        "--ranks", default="1,2", metavar="N,N", help="numbers of ranks to measure, one thread each (1,2)"
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure alternately, and return the rates as JSON values. Raises UsageError for absurd numbers; TrainingError."""
    from rotopaint_ai.bench.training.step_rates import TrainingSettings, measure_all
    from rotopaint_ai.cli.shared import require_training
    from rotopaint_ai.errors import UsageError

    require_training()
    ranks = [int(part) for part in arguments.ranks.split(",") if part.strip().isdecimal()]
    numbers = (arguments.steps, arguments.batch, arguments.size, max(arguments.rounds, 1))
    if not ranks or min(*numbers, *ranks) < 1 or arguments.size % 32:
        raise UsageError("bench train: wanted counts from 1, and a size that 32 divides")
    if arguments.rounds < 1 and not arguments.datasets:
        raise UsageError("bench train: --rounds 0 leaves only the race; name a DATASET for it")
    content: dict[str, Any] = {"benchmark": "train"}
    if arguments.datasets:
        content["race"] = _race(arguments)
    if arguments.rounds >= 1:
        content |= measure_all(TrainingSettings(*numbers, tuple(ranks)))
    return content


def _race(arguments: argparse.Namespace) -> dict[str, Any]:
    import sys
    from pathlib import Path

    from rotopaint_ai.bench.training import race, race_picture
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.files import write_text
    from rotopaint_ai.training.data.dataset import read_dataset

    if arguments.minutes <= 0 or arguments.times < 1 or arguments.cold < 0 or arguments.workers < 0:
        raise UsageError("bench train: wanted --minutes above 0, --times from 1, --cold and --workers from 0")
    for source in arguments.datasets:
        read_dataset(source)  # report a wrong recipe here, before any process starts
    times = {**({"cold": arguments.cold} if arguments.cold else {}), "stock": arguments.times}
    course = race.Course(
        datasets=tuple(arguments.datasets),
        recipe=arguments.recipe,
        overrides=tuple(arguments.set),
        init=arguments.init,
        seconds=arguments.minutes * 60,
        times=times,
        every_s=arguments.every,
        workers=arguments.workers,
    )
    content = race.run(course, lambda text: print(text, file=sys.stderr, flush=True))
    if arguments.plot:
        write_text(Path(arguments.plot), race_picture.svg(content))
    return content
