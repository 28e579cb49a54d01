"""`rotopaint demo`: the main job on the sample shot that ships with the models."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rotopaint_ai.cli import OK
from rotopaint_ai.cli.panel import load_window
from rotopaint_ai.cli.run import add_line_arguments, do, split_names
from rotopaint_ai.jobs import RunJob

SAMPLE = "sample"
CROP_FILE = "crop.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument("--out", default="rotopaint_demo", metavar="DIR", help="output folder (./rotopaint_demo)")
    parser.add_argument("--panel", action="store_true", help="open the result in the panel afterwards")
    add_line_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    show = load_window() if arguments.panel else None
    folder = find_sample()
    job = RunJob(
        plates=str(folder),
        out=arguments.out,
        crops=read_crops(folder / CROP_FILE),
        model=arguments.model,
        exports=split_names(arguments.export),
        method=arguments.method,
        device=arguments.device,
        threads=arguments.threads,
        key_tolerance_px=arguments.reduce_keys,
    )
    code = do(job, events=arguments.events)
    if not arguments.events:
        out = Path(arguments.out)
        print(f"mattes in {out / 'matte'}, clean plates in {out / 'clean'}, Nuke script {out / 'shapes.nk'}")
    return show(str(folder), Path(arguments.out)) if show and code == OK else code


def find_sample() -> Path:
    """The folder of the sample shot. Raises PackError where it is not installed."""
    from rotopaint_ai.errors import PackError
    from rotopaint_ai.inference.pack import pack_places

    for place in pack_places():
        if (place / SAMPLE / CROP_FILE).is_file():
            return place / SAMPLE
    raise PackError("the sample shot is not installed; reinstall the product with its models")


def read_crops(path: Path) -> tuple[str, ...]:
    """The crop of a sample: `{"crop": [X, Y, W, H], "frame": FRAME}`, the frame may be left out.

    Raises: PackError on anything else.
    """
    from rotopaint_ai.errors import PackError

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        x, y, width, height = (float(number) for number in content["crop"])
        frame = f"{int(content['frame'])}:" if "frame" in content else ""
        return (f"{frame}{x:g},{y:g},{width:g},{height:g}",)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PackError(f"{path}: not a crop ({error!r}); reinstall the product with its models") from error
