"""`rotopaint publish`: put a pack where everybody looks for packs, whole or not at all."""

from __future__ import annotations

import argparse
import os
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
    from rotopaint_ai.inference.pack_folder import is_replaceable, replacing_folder

    to = arguments.to or os.environ.get("ROTOPAINT_MODELS")
    if not to:
        raise UsageError("publish: wanted --to FOLDER, or the folder of packs in $ROTOPAINT_MODELS")
    source = load_pack(arguments.pack).folder.resolve()  # refuses one that is not whole
    target = Path(to).resolve() / source.name
    if source == target:
        raise UsageError(f"publish: {source} is there already")
    if target.is_symlink():
        raise UsageError(f"publish: {target} is a symbolic link, which is never written through; remove it")
    if not is_replaceable(target):
        raise UsageError(f"publish: {target} is there and is no model pack; choose another --to, or rename one of them")
    with replacing_folder(target) as beside:
        shutil.copytree(source, beside, dirs_exist_ok=True)
    print(f"{target}: published; --model {target.name} finds it where $ROTOPAINT_MODELS is {target.parent}")
    return OK
