"""`rotopaint publish`: copy a pack into the shared folder of packs, completely or not at all."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rotopaint_ai.cli.shared import one_thread_per_frame, text_given
from rotopaint_ai.errors import UsageError
from rotopaint_ai.jobs import BEGINS_ANEW, Event
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.watch import StagedProgress, watch_work

if TYPE_CHECKING:
    from rotopaint_ai.inference.pack import Pack


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument("pack", type=text_given, metavar="PACK", help="name or folder of a pack")
    parser.add_argument(
        "--to",
        metavar="FOLDER",
        help="folder of packs (default: $ROTOPAINT_MODELS); an existing pack of the same name is replaced",
    )
    parser.add_argument("--name", help="with --head: name of the copy (default: PROJECT_pack)")
    parser.add_argument(
        "--head",
        metavar="PROJECT",
        help="give the copy the head that the corrections of a project show; the character's next shots start from it",
    )
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    one_thread_per_frame()
    from rotopaint_ai.cli import OK
    from rotopaint_ai.inference.pack import load_pack
    from rotopaint_ai.inference.pack_folder import copy_pack, is_replaceable, replacing_folder

    to = arguments.to or os.environ.get("ROTOPAINT_MODELS")
    if not to:
        raise UsageError("publish: wanted --to FOLDER, or the folder of packs in $ROTOPAINT_MODELS")
    if file := next((path for path in (Path(to), *Path(to).parents) if path.is_file()), None):
        raise UsageError(f"{file}: is a file; wanted a folder")
    project = None if arguments.head is None else Path(arguments.head)
    if project is not None and project.suffix.lower() != PROJECT_SUFFIX:
        raise UsageError(f"publish --head {project}: wanted a project (*{PROJECT_SUFFIX})")
    pack = load_pack(arguments.pack)  # refuses an incomplete pack
    source = pack.folder.resolve()
    target = Path(to).resolve() / _name_of_copy(arguments, source.name, project)
    if source == target and project is None:
        raise UsageError(f"publish: {source} is in that folder already")
    if target.is_symlink():
        raise UsageError(f"publish: {target} is a symbolic link, which is never written through; remove it")
    if not is_replaceable(target):
        raise UsageError(
            f"publish: {target} exists and is not a model pack; choose another --to, or rename one of them"
        )
    if project is not None:
        _copy_with_head(arguments, pack, project, target)
    else:
        with replacing_folder(target) as beside:
            copy_pack(source, beside)
    if not arguments.events:
        print(f"{target}: published; --model {target.name} finds it where $ROTOPAINT_MODELS is {target.parent}")
    return OK


def _name_of_copy(arguments: argparse.Namespace, name: str, project: Path | None) -> str:
    if project is None:
        if arguments.name:
            raise UsageError("publish --name: works only with --head; a pack is published under its own name")
        return name
    wanted = arguments.name or f"{project.stem}_pack"
    if Path(wanted).name != wanted or wanted == "..":
        raise UsageError(f"publish --name {wanted}: wanted a name without folders; --to says where")
    return str(wanted)


def _copy_with_head(arguments: argparse.Namespace, pack: Pack, project: Path, target: Path) -> None:
    from rotopaint_ai.pipeline import corrected_project as projects

    if projects.has_trained_head(pack):
        raise UsageError(
            f"publish --head: {pack.name} was trained with a head of its own, of more poses; use it as it is"
        )
    shot = projects.read_corrected_project(project)
    with watch_work(events=arguments.events, hint=BEGINS_ANEW) as (sink, cancel):
        progress = StagedProgress({"head": 1.0}, sink, cancel.check)
        try:
            head = projects.head_of_project(shot, pack, partial(progress, "head"))
        except UsageError as error:
            raise UsageError(f"{project.name}: {error}") from None
        cancel.check()
        projects.copy_pack_with_head(pack, head, target, project=project, frames=shot.frames)
        sink(Event("finished", {"pack": str(target)}))
