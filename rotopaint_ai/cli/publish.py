"""`rotopaint publish`: put a pack where everybody looks for packs, whole or not at all."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.add_argument("pack", metavar="PACK", help="folder of a pack")
    parser.add_argument(
        "--to", metavar="FOLDER", help="folder of packs; $ROTOPAINT_MODELS unless given. A pack there of that name goes"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    from rotopaint_ai.cli import OK
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.inference.pack import load_pack

    to = arguments.to or os.environ.get("ROTOPAINT_MODELS")
    if not to:
        raise UsageError("publish: wanted --to FOLDER, or the folder of packs in $ROTOPAINT_MODELS")
    source = load_pack(arguments.pack).folder.resolve()  # refuses one that is not whole
    target = Path(to).resolve() / source.name
    if source == target:
        raise UsageError(f"publish: {source} is there already")
    _put_in_place(source, target)
    print(f"{target}: published; --model {target.name} finds it where $ROTOPAINT_MODELS is {target.parent}")
    return OK


def _put_in_place(source: Path, target: Path) -> None:
    """Copy beside the target and rename; the pack that was there goes last."""
    mark = secrets.token_hex(4)
    beside, before = (target.with_name(f".{target.name}.{mark}.{kind}") for kind in ("new", "old"))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(source, beside)
        if target.exists():
            os.rename(target, before)
        os.rename(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
