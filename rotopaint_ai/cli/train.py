"""`rotopaint train`: a model pack from data sets."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from rotopaint_ai.cli.shared import require_training, text_given
from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import absolute_place
from rotopaint_ai.jobs import BEGINS_ANEW, Cancel, Event, Sink, warning
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.watch import watch_work

if TYPE_CHECKING:
    from rotopaint_ai.training.pack.network import TrainOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument(
        "datasets",
        nargs="+",
        type=text_given,
        metavar="DATASET",
        help="folders made by 'rotopaint mine' or the stage; with --recipe shot, a project",
    )
    parser.add_argument("--out", type=text_given, required=True, metavar="PACK", help="folder of the new pack")
    parser.add_argument("--recipe", metavar="FILE.yaml", help="a recipe file, or the name of a shipped recipe")
    parser.add_argument(
        "--set", action="append", default=[], metavar="key=value", help="change a field of the recipe; may be repeated"
    )
    parser.add_argument("--init", metavar="PACK", help="pack to start from; 'none' starts from random weights")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint of the same training")
    parser.add_argument("--name", metavar="TEXT", help="the pack's name on its card")
    parser.add_argument("--licence", metavar="TEXT", help="the pack's licence on its card")
    parser.add_argument(
        "--strategy",
        default="auto",
        metavar="WHAT",
        help="auto (one rank per GPU or NUMA node), single, or a number of ranks on this machine",
    )
    parser.add_argument(
        "--backend",
        default="gloo",
        metavar="NAME",
        help="communication of ranks on processors: gloo, mpi or ccl (oneCCL)",
    )
    parser.add_argument(
        "--openjd",
        metavar="FILE",
        help="write an Open Job Description template and do nothing else; its steps are mine, train, evaluate, publish",
    )
    parser.add_argument(
        "--mine", metavar="ARGUMENTS", help="with --openjd: the arguments of 'rotopaint mine', without --out"
    )
    parser.add_argument(
        "--against", metavar="PACK", help="with --openjd: the pack of the gate (default: the pack to start from)"
    )
    parser.add_argument(
        "--publish",
        metavar="FOLDER",
        help="with --openjd: the folder to which a pack is published if it passes the gate",
    )
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    if arguments.openjd:
        return _write_template(arguments)
    for name in ("mine", "against", "publish"):
        if getattr(arguments, name):
            raise UsageError(f"--{name}: works only with --openjd; leave it out or add that")
    require_training()
    from rotopaint_ai.training.trainer.launch import restart_process, start_time

    restart_process()
    since = start_time()
    from rotopaint_ai.training.pack.network import find_task
    from rotopaint_ai.training.trainer.config import PACK, SHOT

    task = find_task(arguments.recipe, arguments.set)
    if task == SHOT:
        return _train_shot(arguments, since)
    _refuse_projects(arguments)
    if task != PACK:
        _refuse_for(task, arguments)
    train = _train_pack if task == PACK else partial(_train_network, task)
    from rotopaint_ai.numa import find_topology
    from rotopaint_ai.training.trainer.group import check_backend
    from rotopaint_ai.training.trainer.launch import choose, is_rank, launch

    check_backend(arguments.backend)
    if is_rank():
        return _as_rank(lambda: _train_joined(arguments, train, since))
    layout = choose(find_topology(), arguments.strategy)
    print(f"strategy: {layout.reason}", file=sys.stderr)
    if layout.n_ranks > 1:
        return launch(layout, sys.argv[1:])
    return _train_joined(arguments, train, since)


def _write_template(arguments: argparse.Namespace) -> int:
    """Write the steps of this training for a farm, with paths that are valid on every machine."""
    from rotopaint_ai.batch.openjd import write_chain

    data, out = [absolute_place(each) for each in arguments.datasets], absolute_place(arguments.out)
    init, against = (None if each is None else _everywhere(each) for each in (arguments.init, arguments.against))
    gate = against or (init if init != "none" else None)
    if arguments.publish and gate is None:
        raise UsageError("--publish: needs --against PACK too, the gate that a pack must pass first")
    mining = _mine_arguments(arguments.mine or "")
    gating = [*(["--against", gate] if gate is not None else []), "--json", f"{out}.run/gate.json"]
    publish = ["publish", out, "--to", absolute_place(arguments.publish)] if arguments.publish else []
    commands = {
        **({"Mine": ["mine", *mining, "--out", data[0]]} if mining else {}),
        "Train": ["train", *data, "--out", out, *_training_arguments(arguments, init), "--resume"],
        "Evaluate": ["evaluate", out, data[0], *gating],
        **({"Publish": publish} if publish else {}),
    }
    write_chain(Path(arguments.openjd), Path(out).name, commands)
    print(f"{arguments.openjd}: {', '.join(commands)}; openjd run {arguments.openjd}")
    return 0


def _training_arguments(arguments: argparse.Namespace, init: str | None) -> list[str]:
    """The options of a training, as they were given."""
    recipe = None if arguments.recipe is None else _everywhere(arguments.recipe)
    settings = [part for each in arguments.set for part in ("--set", each)]
    given = {"recipe": recipe, "init": init} | {
        name: getattr(arguments, name) for name in ("name", "licence", "strategy", "backend")
    }
    options = [part for name, value in given.items() if value is not None for part in (f"--{name}", value)]
    return [*settings, *options]


def _mine_arguments(text: str) -> list[str]:
    """The arguments of `mine` with file patterns expanded, because no shell expands them on a farm."""
    return [_everywhere(path) for each in shlex.split(text) for path in sorted(glob(each)) or [each]]


def _everywhere(word: str) -> str:
    """A word as an absolute path if it is a path; names and options stay unchanged."""
    is_path = (os.sep in word and "=" not in word.split(os.sep)[0]) or os.path.exists(word)
    return absolute_place(word) if is_path and not word.startswith(("-", "{")) else word


def _as_rank(train: Callable[[], int]) -> int:
    """Train as one rank of several. An error that ends all ranks is left to the parent process, which reports it."""
    from rotopaint_ai.cli import message_and_code
    from rotopaint_ai.training.trainer import launch as exits

    folder = exits.exit_reasons_folder()
    if folder is None:  # a person started torchrun
        return train()
    if exits.read_exit_reason(folder, exits.LAST) is not None:
        return 0
    try:
        return train()
    except (Exception, KeyboardInterrupt) as error:
        mended = exits.is_recoverable(error)
        text, code = message_and_code(error, sys.argv[1:])
        exits.write_exit_reason(folder, exits.LOST if mended else exits.LAST, text, code)
        return code if mended else 0


def _train_joined(arguments: argparse.Namespace, train: Callable[[TrainOptions, bool], int], since: float) -> int:
    """Join the other ranks, if any, and train."""
    from rotopaint_ai.training.trainer.group import Group
    from rotopaint_ai.training.trainer.launch import bind, exit_reasons_folder, has_restarted, layout_of_torchrun

    bound = bind()
    group = Group.join(arguments.backend)
    if group.is_first and group.ranks > 1 and exit_reasons_folder() is None:
        print(f"strategy: {layout_of_torchrun(os.environ, group.device.type, bound)}", file=sys.stderr)
    with watch_work(events=arguments.events) as (emit, cancel):
        sink = emit if group.is_first else _silent
        again = group.is_true_anywhere(has_restarted())
        if again:
            sink(warning("a rank was lost; all ranks continue from the last checkpoint"))
        # the time of earlier processes of these ranks is in the checkpoint
        began = None if again else since
        options = _options(arguments, sink, cancel, began)
        return train(replace(options, group=group, resume=arguments.resume or again), not arguments.events)


def _options(arguments: argparse.Namespace, sink: Sink, cancel: Cancel, began: float | None) -> TrainOptions:
    """The options of a training in this process; `began`: start by `time.time` (None: now)."""
    from rotopaint_ai.training.pack.network import TrainOptions

    return TrainOptions(
        arguments.datasets,
        Path(arguments.out),
        arguments.recipe,
        arguments.set,
        arguments.init,
        command=shlex.join(["rotopaint", *sys.argv[1:]]),
        sink=sink,
        cancel=cancel,
        began=began,
        name=arguments.name,
        licence=arguments.licence,
    )


def _train_pack(options: TrainOptions, prints: bool) -> int:
    """Train both models of a pack; the first rank prints its metrics."""
    from rotopaint_ai.cli.evaluate import figures_table
    from rotopaint_ai.training.pack.train import train_pack

    report = train_pack(options)
    if options.group.is_first and prints:
        print(f"{report.pack}: {report.steps} steps, {report.images_per_s:.0f} images/s")
        if report.profile is not None:
            print(report.profile.line())
        print(figures_table([report.metrics]))
        print(f"all figures: {options.out.name}.run/report.json and the pack's card.json")
    return 0


def _train_network(task: str, options: TrainOptions, prints: bool) -> int:
    """Train one network that is a file of a pack; the first rank prints its metrics."""
    from rotopaint_ai.training.pack.network import train_network

    metrics = train_network(task, options)
    if options.group.is_first and prints:
        print(json.dumps(metrics, indent=1))
    return 0


def _train_shot(arguments: argparse.Namespace, since: float) -> int:
    """Train a pack on the corrections of a project, and update the shot of the project."""
    from rotopaint_ai.training.pack.shot import train_shot

    for option in ("resume", "name", "licence"):
        if getattr(arguments, option):
            raise UsageError(f"--{option.replace('_', '-')}: not with recipe '{arguments.recipe}'; leave it out")
    if len(arguments.datasets) != 1 or Path(arguments.datasets[0]).suffix.lower() != PROJECT_SUFFIX:
        given = " ".join(arguments.datasets)
        raise UsageError(
            f"{given}: wanted one project (*{PROJECT_SUFFIX}), on which recipe '{arguments.recipe}' trains"
        )
    with watch_work(events=arguments.events, hint=BEGINS_ANEW) as (sink, cancel):
        report = train_shot(_options(arguments, sink, cancel, since))
    if not arguments.events:
        took = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in report.seconds.items())
        print(f"{report.pack}: {report.steps} steps on {len(report.frames)} corrected frames ({took})")
        print(
            "the project was not changed: somebody works on it"
            if report.n_moved is None
            else f"{report.n_moved} keys of the project moved, one step to undo"
        )
    return 0


def _refuse_projects(arguments: argparse.Namespace) -> None:
    """Raise UsageError for a project where data sets are wanted."""
    for source in arguments.datasets:
        if Path(source).suffix.lower() == PROJECT_SUFFIX:
            raise UsageError(
                f"{source}: is a project; --recipe shot trains on its corrected frames, or mine it into a data set"
            )


def _refuse_for(task: str, arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that work only where a whole pack is trained."""
    given = {
        "--name": arguments.name is not None,
        "--licence": arguments.licence is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{option}: not with recipe '{arguments.recipe}', which trains one {task} and puts it into a pack that "
                "has its own card; leave it out"
            )


def _silent(event: Event) -> None:
    """Ignore an event: only the first rank reports."""
