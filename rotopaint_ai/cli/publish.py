"""`rotopaint publish`: copy a pack into the shared folder of packs, completely or not at all."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument("pack", metavar="PACK", help="folder of a pack")
    parser.add_argument(
        "--to",
        metavar="FOLDER",
        help="folder of packs (default: $ROTOPAINT_MODELS); an existing pack of the same name is replaced",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    from rotopaint_ai.cli import OK
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.inference.pack import load_pack
    from rotopaint_ai.inference.pack_folder import is_replaceable, replacing_folder

    to = arguments.to or os.environ.get("ROTOPAINT_MODELS")
    if not to:
        raise UsageError("publish: wanted --to FOLDER, or the folder of packs in $ROTOPAINT_MODELS")
    source = load_pack(arguments.pack).folder.resolve()  # refuses an incomplete pack
    target = Path(to).resolve() / source.name
    if source == target:
        raise UsageError(f"publish: {source} is in that folder already")
    if target.is_symlink():
        raise UsageError(f"publish: {target} is a symbolic link, which is never written through; remove it")
    if not is_replaceable(target):
        raise UsageError(
            f"publish: {target} exists and is not a model pack; choose another --to, or rename one of them"
        )
    with replacing_folder(target) as beside:
        shutil.copytree(source, beside, dirs_exist_ok=True)
    print(f"{target}: published; --model {target.name} finds it where $ROTOPAINT_MODELS is {target.parent}")
    return OK
