"""`rotopaint evaluate`: evaluate a model pack on a data set, and refuse a pack that is worse than another."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.cli.shared import add_cluster_arguments, check_cluster_arguments, say, text_given
from rotopaint_ai.errors import in_one_line, list_names
from rotopaint_ai.files import absolute_place, refuse_no_file
from rotopaint_ai.jobs import BEGINS_ANEW
from rotopaint_ai.watch import StagedProgress, StageProgress, watch_work

EXIT_CODES = (
    "exit codes: 0 measured, and not worse than --against; 2 wrong use; 4 worse than --against (see the table), or "
    "measured on frames that the pack was trained on"
)
SPLITS: Final = ("train", "val", "test")
ALL: Final = "all"
_PICTURES: Final = (".jpg", ".jpeg", ".png")
_MOST_SHOTS: Final = 6  # number of shots named in a line
LINES = (
    ("landmarks mean", "px", ("landmarks_px", "mean")),
    ("landmarks 95 %", "px", ("landmarks_px", "p95")),
    ("landmarks mean", "% of the face", ("landmarks_percent", "mean")),
    ("NME, face size", "%", ("nme_face_size",)),
    ("NME, interocular", "%", ("nme_interocular",)),
    ("seam curves mean", "px", ("seams", "px", "mean")),
    ("seam curves mean", "% of the face", ("seams", "percent", "mean")),
    ("seam mattes", "IoU", ("seams", "matte_iou")),
    ("other shapes mean", "px", ("other_shapes", "px", "mean")),
    ("other mattes", "IoU", ("other_shapes", "matte_iou")),
    ("boundary F at 2 px", "", ("other_shapes", "boundary_f", "2_px")),
    ("jitter on moving frames", "px", ("motion", "moving_px", "steadied")),
    ("jitter inside holds", "px", ("motion", "in_holds_px", "steadied")),
    ("expected error, rank of frames", "", ("expected_error", "rank_correlation_of_frames")),
    ("bad frames in the tenth shown", "", ("expected_error", "of_them_in_worst_tenth_shown")),
    ("time", "ms/frame", ("ms_per_frame",)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.epilog = EXIT_CODES
    parser.add_argument("pack", type=text_given, metavar="PACK", help="folder or name of a model pack")
    parser.add_argument(
        "dataset",
        type=text_given,
        metavar="DATASET",
        help="data set to measure on; its test samples are used where it has some",
    )
    parser.add_argument("--split", choices=(*SPLITS, ALL), help="use the samples of this split instead")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--html", metavar="FILE", help="write a page with tables, plots and the worst samples")
    parser.add_argument("--contact", metavar="FILE.jpg", help="write a contact sheet of the worst 24 samples")
    parser.add_argument(
        "--against",
        metavar="PACK",
        help="the gate: measure a second pack on the same samples; `default`: the shipped one",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share by which the gate allows a distance to grow (0.05)",
    )
    parser.add_argument("--eyes", metavar="A,B", help="landmarks whose distance normalises the NME")
    add_cluster_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    from rotopaint_ai.batch.cluster import executor_of
    from rotopaint_ai.cli import OK, WORSE
    from rotopaint_ai.training.data.dataset import read_dataset
    from rotopaint_ai.training.evaluation import gate
    from rotopaint_ai.training.evaluation.evaluate import STAGES, choose_samples, measure_pack

    check_cluster_arguments(arguments)
    _check_result_files(arguments)
    eyes, dataset = _eyes(arguments), read_dataset(absolute_place(arguments.dataset))
    splits = _splits(arguments, dataset)
    chosen = choose_samples(dataset, splits)
    packs, notes = _packs(arguments, chosen)
    turns = [f"{n} of {len(packs)}, " if len(packs) > 1 else "" for n in range(1, len(packs) + 1)]
    stages = {turn + stage: share for turn in turns for stage, share in STAGES.items()}
    with (
        executor_of(arguments.cluster, arguments.workers) as workers,
        watch_work(events=False, hint=BEGINS_ANEW) as (sink, cancel),
    ):
        tell = StagedProgress(stages, sink, cancel.check)
        found = [
            measure_pack(
                pack, dataset, splits=splits, eyes=eyes, workers=workers, progress=partial(_tell_turn, tell, turn)
            )
            for turn, pack in zip(turns, packs)
        ]
    results = [each.result for each in found]
    compared = gate.compare_packs(results[0], results[1], arguments.tolerance) if arguments.against else []
    print(figures_table(results), flush=True)  # before files are written, which may fail
    for line in (*not_measured(arguments, dataset, chosen), *notes, *_learned_lines(results, packs)):
        say(line)
    if arguments.against:
        print(gate.gate_text(compared, (results[0]["pack"], results[1]["pack"])))
        if results[0]["learned_frames"]:
            learned = f"{results[0]['pack']} cannot pass on frames that it was trained on: {_shown_frames(results[0])}"
            say(f"gate: {learned}")
    _write_results(arguments, found[0], compared, results)
    if not arguments.against:
        return OK
    return WORSE if results[0]["learned_frames"] or any(each.is_worse for each in compared) else OK


def _tell_turn(tell: StageProgress, turn: str, stage: str, done: int, total: int) -> None:
    """Report progress; of two packs, also which one."""
    tell(turn + stage, done, total)


def _check_result_files(arguments: argparse.Namespace) -> None:
    """Raise UsageError where a result file cannot be written, or would overwrite a file of the pack or data set."""
    from rotopaint_ai.errors import UsageError

    measured = [Path(each).resolve() for each in (arguments.dataset, arguments.pack, arguments.against) if each]
    given = [path for path in (arguments.json, arguments.html, arguments.contact) if path]
    if len({os.path.abspath(path) for path in given}) < len(given):
        raise UsageError("--json, --html and --contact name one file; give each its own")
    for each in map(Path, given):
        refuse_no_file(each)
    if arguments.contact and Path(arguments.contact).suffix.lower() not in _PICTURES:
        raise UsageError(f"--contact {arguments.contact}: wanted a picture, {', '.join(_PICTURES)}")
    for option in ("json", "html", "contact"):
        path = Path(getattr(arguments, option) or "")
        if path.is_file() and any(path.resolve().is_relative_to(folder) for folder in measured):
            raise UsageError(f"--{option} {path}: is a file of the pack or data set; choose another name")


def _eyes(arguments: argparse.Namespace) -> tuple[str, str] | None:
    from rotopaint_ai.errors import UsageError

    if not 0 <= arguments.tolerance < math.inf:
        raise UsageError(f"--tolerance {arguments.tolerance}: wanted 0 or more, such as 0.05")
    if arguments.eyes is None:
        return None
    one, comma, other = arguments.eyes.partition(",")
    if not comma or not one or not other:
        raise UsageError(f"--eyes {arguments.eyes}: wanted two landmarks, such as eye_right_outer,eye_left_outer")
    return one.strip(), other.strip()


def _splits(arguments: argparse.Namespace, dataset: Any) -> Any:
    from rotopaint_ai.errors import UsageError

    if arguments.split is None:
        return ("test",)
    if arguments.split == ALL:
        return SPLITS
    if not len(dataset.rows_of(arguments.split)):
        have = sorted({sample.split for sample in dataset.samples})
        raise UsageError(
            f"--split {arguments.split}: data set '{dataset.name}' has no such samples; it has {', '.join(have)}"
        )
    return (arguments.split,)


def _packs(arguments: argparse.Namespace, chosen: Any) -> tuple[list[str], list[str]]:
    """The packs to measure, and notes about them.

    A pack may have trained on the chosen samples only in the last part of its training. For the gate, its state before
    that part is measured."""
    from rotopaint_ai.inference.pack import load_pack
    from rotopaint_ai.training.evaluation.gate import trained_frames

    if not arguments.against:
        return [arguments.pack], []
    packs, notes = [], []
    for pack in (arguments.pack, arguments.against):
        before = _before_last(pack)
        learned = trained_frames(load_pack(pack).card, chosen) if before.is_dir() else {}
        if learned and not trained_frames(load_pack(before).card, chosen):
            notes.append(
                f"gate: {pack} was trained on these samples in its last part; {before}, from before that, is measured"
            )
            pack = str(before)
        packs.append(pack)
    return packs, notes


def _before_last(pack: str) -> Path:
    """Where a training stores its pack as it was before training also used the validation samples."""
    from rotopaint_ai.training.evaluation.gate import EVALUATED

    return Path(f"{pack.rstrip('/')}.run") / EVALUATED


def not_measured(arguments: argparse.Namespace, dataset: Any, chosen: Any) -> list[str]:
    """A line about samples that were not measured, where no split was chosen."""
    splits = {sample.split for sample in chosen.samples}
    shots = dict.fromkeys(sample.shot for sample in dataset.samples if sample.split not in splits)
    if arguments.split is not None or not shots or "test" in splits:
        return []
    left = sum(sample.split not in splits for sample in dataset.samples)
    return [
        f"not measured: {left} training samples ({', '.join(list(shots)[:6])}); --split all includes them, and "
        "'mine --test SHOT' marks shots for tests"
    ]


def _learned_lines(results: Sequence[Mapping[str, Any]], packs: Sequence[str]) -> list[str]:
    """Lines that warn of figures on samples that a pack was trained on."""
    lines = []
    for result, pack in zip(results, packs):
        if result["has_learned_them"]:
            before = _before_last(pack)
            more = f"; {before} is the pack before it was trained on validation samples" if before.is_dir() else ""
            lines.append(
                f"{result['pack']} was trained on {_shown_frames(result) or 'some of these samples'}, so its figures "
                f"are too good: 'mine --test SHOT' keeps shots for tests{more}"
            )
    return lines


def _shown_frames(result: Mapping[str, Any]) -> str:
    shots = [f"{shot} {frames}" for shot, frames in result["learned_frames"].items()]
    return list_names(shots, _MOST_SHOTS, "; ")


def _write_results(
    arguments: argparse.Namespace, found: Any, compared: Sequence[Any], results: Sequence[Mapping[str, Any]]
) -> None:
    from rotopaint_ai.files import write_json
    from rotopaint_ai.plates.coded_pictures import write_picture
    from rotopaint_ai.report.evaluation import write_page
    from rotopaint_ai.training.evaluation.contact_sheets import worst_cases

    against = results[1] if len(results) > 1 else None
    if arguments.json:
        gate = [each.content() for each in compared] if against else None
        write_json(Path(arguments.json), {"result": results[0], "against": against, "gate": gate})
    worst = worst_cases(found.dataset, found.predicted) if arguments.html or arguments.contact else None
    if arguments.contact and worst is not None:
        write_picture(Path(arguments.contact), worst)
    if arguments.html and worst is not None:
        write_page(Path(arguments.html), results[0], _as_jpeg(worst), compared, against)


def _as_jpeg(picture: Any) -> bytes:
    import cv2

    _, code = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 88])
    return bytes(code)


def figures_table(results: Sequence[Mapping[str, Any]]) -> str:
    """The main numbers of one or two evaluations, side by side."""
    packs = [in_one_line(result["pack"]) for result in results]
    head = f"{'':38}" + "".join(f"{pack:>16}" for pack in packs)
    rows = [
        f"{f'{name}, {unit}' if unit else name:38}" + "".join(f"{_figure_text(result, path):>16}" for result in results)
        for name, unit, path in LINES
    ]
    n = results[0]["n_samples"]
    lines = [in_one_line(f"{results[0]['dataset']}: {n} samples ({', '.join(results[0]['splits'])})"), head, *rows]
    for pack, result in zip(packs, results):
        if gone := result["missing"]:
            lines.append(
                in_one_line(f"{pack} has no {list_names(gone)}, or not as the data set means it: not measured")
            )
        lines += [in_one_line(f"{pack}: {doubt}") for doubt in result["doubts"]]
    return "\n".join(lines)


def _figure_text(result: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = result
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return "-" if value is None else f"{value:.3f}"
