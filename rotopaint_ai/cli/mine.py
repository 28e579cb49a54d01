"""`rotopaint mine`: ground truth from finished roto."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotopaint_ai.cli.shared import add_cluster_arguments, check_cluster_arguments, say, text_given
from rotopaint_ai.jobs import BEGINS_ANEW, Event
from rotopaint_ai.watch import StagedProgress, StageProgress, watch_work

if TYPE_CHECKING:
    from rotopaint_ai.training.data.shards.write import Recoder
    from rotopaint_ai.training.mining.mine import MineReport

PACKING = "packing pictures"
LARGEST_PX, MOST_TOLERANCE_PX = 8192, 100.0
PLANES, CUT, RAW, H264 = "planes", "cut", "raw", "h264"
EXIT_CODES = (
    "exit codes: 0 all done; 2 wrong use; 3 some frames are missing or cannot be read (the data set holds the others)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.epilog = EXIT_CODES
    parser.add_argument(
        "sources",
        nargs="+",
        type=text_given,
        metavar="SOURCE",
        help="shapes in any format that 'convert' reads (.nk, .roto.json, .fxs, .ssf, .setting, ...), project "
        "(*.rotopaint: what artists corrected), COCO keypoint *.json, or a folder of the published puppet set",
    )
    parser.add_argument(
        "--plates",
        type=text_given,
        metavar="PLATES",
        help="plates of the roto, as for 'run'; {dir} is a source's folder, {stem} its name; COCO names its pictures",
    )
    parser.add_argument("--out", type=text_given, required=True, metavar="DATASET", help="folder of the data set")
    parser.add_argument("--sheet", metavar="FILE", help="character sheet to follow; without it one is proposed")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="rename a shape or landmark, so that it has the same name in every shot; may be repeated",
    )
    parser.add_argument(
        "--interpolated",
        action="store_true",
        help="also use frames between keys; for finished roto that was checked on every frame",
    )
    parser.add_argument(
        "--character", metavar="NAME", help="character of all sources (default: from the plates' folder)"
    )
    parser.add_argument("--name", metavar="NAME", help="name of the data set and its sheet")
    parser.add_argument("--licence", default="not stated", metavar="TEXT", help="licence of the pictures and the roto")
    parser.add_argument("--size", type=int, default=400, metavar="PX", help="side of the pictures, pixels (400)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.25,
        metavar="PX",
        help="allowed distance of new splines from the artist's, pixels (0.25)",
    )
    parser.add_argument(
        "--val",
        action="append",
        default=[],
        metavar="SHOT",
        help="validation shot; 'none' for none (default: the last shot)",
    )
    parser.add_argument(
        "--test",
        action="append",
        default=[],
        metavar="SHOT",
        help="test shot: 'evaluate' measures on it and 'train' never uses it; 'all' for all shots; COCO files may mark "
        'pictures themselves ("split": "test")',
    )
    parser.add_argument(
        "--shards",
        type=float,
        metavar="MB",
        help="pack the pictures into tars of this size (64 is a good size), for a server or a slow disk",
    )
    parser.add_argument(
        "--shard-codec",
        "--shard-quality",
        metavar="CODEC",
        default=PLANES,
        help="coding of packed pictures: planes (default; luma at full size, chroma at half size; fastest to read, "
        "about six times the bytes), cut (the original JPEGs), h264 (clips of twelve pictures; fewest bytes), "
        "1 to 100 (JPEG of this quality), or raw",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="WHAT",
        help="leave out SHOT, SHOT:A-B, a kind of suspicious frame (swapped, jumped, ...), 'suspicious', or the lines "
        "of @FILE, such as mining/suspicious.txt after you have deleted the lines of good frames",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="write into DATASET although it was mined from sources not given now"
    )
    add_cluster_arguments(parser)
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: the cores are used for shapes in parallel
    from rotopaint_ai.batch.cluster import executor_of
    from rotopaint_ai.cli import FRAMES_FAILED, OK
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.training.mining.mine import mine
    from rotopaint_ai.training.mining.options import STAGES, Exclusion, MineOptions
    from rotopaint_ai.training.mining.takes import parse_renames

    if arguments.shards is not None and not 0 < arguments.shards < 1e5:
        raise UsageError(f"--shards {arguments.shards}: wanted megabytes per tar, such as 64")
    codec = arguments.shard_codec
    if codec not in (PLANES, CUT, RAW, H264, *map(str, range(1, 101))):
        raise UsageError(f"--shard-codec {codec}: wanted planes, cut, raw, h264, or 1 to 100")
    if codec != PLANES and arguments.shards is None:
        raise UsageError(f"--shard-codec {codec}: needs --shards MB too")
    if not 32 <= arguments.size <= LARGEST_PX:
        raise UsageError(f"--size {arguments.size}: wanted 32 to {LARGEST_PX} pixels")
    if not 0 < arguments.tolerance <= MOST_TOLERANCE_PX:
        raise UsageError(f"--tolerance {arguments.tolerance:g}: wanted above 0, up to {MOST_TOLERANCE_PX:g} pixels")
    check_cluster_arguments(arguments)
    options = MineOptions(
        # Absolute, for workers in other folders.
        sources=tuple(Path(source).absolute() for source in arguments.sources),
        out=Path(arguments.out).absolute(),
        plates=_absolute_pattern(arguments.plates),
        sheet=Path(arguments.sheet) if arguments.sheet else None,
        character=arguments.character,
        name=arguments.name,
        licence=arguments.licence,
        size=arguments.size,
        tolerance_px=arguments.tolerance,
        val=tuple(arguments.val),
        test=tuple(arguments.test),
        exclude=Exclusion.parse(arguments.exclude),
        renames=parse_renames(arguments.rename),
        interpolated=arguments.interpolated,
        overwrite=arguments.overwrite,
    )
    stages = {**STAGES, **({PACKING: 5} if arguments.shards else {})}
    with (
        executor_of(arguments.cluster, arguments.workers) as workers,
        watch_work(events=arguments.events, hint=BEGINS_ANEW) as (sink, cancel),
    ):
        progress = StagedProgress(stages, sink, cancel.check)
        mined = mine(options, progress=progress, workers=workers)
        packed = _pack_pictures(mined, arguments, progress) if arguments.shards else None
        if arguments.events:
            sink(_mined_event(mined, arguments.out))
    if not arguments.events:
        _print_residuals(mined)
    for note in (*mined.notes, *mined.failed):
        say(note, sys.stderr)
    if packed is not None:
        say(packed, sys.stderr)
    if not arguments.events:
        counts = ", ".join(f"{count} {split}" for split, count in mined.n_samples.items() if count)
        say(
            f"{arguments.out}: {counts}; {len(mined.sheet.landmarks)} landmarks, {len(mined.sheet.shapes)} shapes; "
            f"{mined.excluded} frames excluded; residuals and suspicious frames in {Path(arguments.out) / 'mining'}"
        )
    return FRAMES_FAILED if mined.failed or mined.n_missing else OK


def _mined_event(mined: MineReport, out: str) -> Event:
    """The last event: the data set in figures."""
    facts = {
        "out": out,
        "samples": dict(mined.n_samples),
        "landmarks": len(mined.sheet.landmarks),
        "shapes": len(mined.sheet.shapes),
        "excluded": mined.excluded,
        "suspicious": len(mined.issues),
        "missing": mined.n_missing,
        "unreadable": list(mined.failed),
    }
    return Event("finished", facts)


def _print_residuals(mined: MineReport) -> None:
    """Print the residuals, and the first suspicious frames."""
    from rotopaint_ai.training.mining.mine import residual_text

    if mined.table:
        print(residual_text(mined.table), end="")
    for shot, frame, issue in mined.issues[:40]:
        say(f"{shot} {frame}: {issue.kind}: {issue.about}: {issue.text}")
    if len(mined.issues) > 40:
        print(f"... and {len(mined.issues) - 40} more")


def _absolute_pattern(plates: str | None) -> str | None:
    """An absolute pattern of plates, for workers in other folders; a pattern with `{dir}` stays unchanged."""
    return plates if plates is None or plates.startswith("{") else os.path.abspath(plates)


_LOSS_DB = 36.0  # below it film grain and the edges of thin seams become soft


def _pack_pictures(mined: MineReport, arguments: argparse.Namespace, progress: StageProgress) -> str | None:
    """Pack a data set's pictures into tars and delete the single files once the index is written; returns a summary."""
    from rotopaint_ai.training.data.shards.write import Recoder, pack_dataset
    from rotopaint_ai.training.mining.mined_samples import locked_dataset, remove_pictures

    folder, codec, packed = Path(arguments.out), arguments.shard_codec, count(1)
    coding: Any = codec if codec in (PLANES, RAW, H264) else None if codec == CUT else int(codec)
    recode = None if coding is None else Recoder(coding)
    total = sum(mined.n_samples.values())

    def tell() -> None:
        progress(PACKING, min(next(packed), total), total)

    with locked_dataset(folder):
        pack_dataset(folder, folder, shard_mb=arguments.shards, recode=recode, check=tell)
        remove_pictures(folder)
    return None if recode is None else _packing_text(recode)


def _packing_text(recode: Recoder) -> str:
    share = recode.n_bytes / max(1, recode.n_bytes_before)
    summary = f"shards: {share:.0%} of the bytes, {recode.psnr_db:.1f} dB from the pictures as cut"
    if recode.psnr_db >= _LOSS_DB:
        return summary
    return f"{summary}; warning: below {_LOSS_DB:.0f} dB fine detail is lost; mine again with a better --shard-codec"
