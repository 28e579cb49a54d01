"""`rotopaint evaluate`: measure a model pack on a data set, and keep a worse one from going out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.cli.watch import stopping_on_signals
from rotopaint_ai.jobs import Cancel

EXIT_CODES = "exit codes: 0 measured, and not worse than --against; 2 wrong use; 4 worse than --against (see the table)"
SPLITS: Final = ("train", "val", "test")
ALL: Final = "all"
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
    """Say which arguments the command takes."""
    parser.epilog = EXIT_CODES
    parser.add_argument("pack", metavar="PACK", help="folder or name of a model pack")
    parser.add_argument("dataset", metavar="DATASET", help="data set to measure on; its test samples where it has some")
    parser.add_argument("--split", choices=(*SPLITS, ALL), help="samples of this split instead")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--html", metavar="FILE", help="write a page with tables, plots and the worst samples")
    parser.add_argument("--contact", metavar="FILE.jpg", help="write a contact sheet of the worst 24 samples")
    parser.add_argument("--against", metavar="PACK", help="the gate: measure a second pack on the same samples")
    parser.add_argument(
        "--tolerance", type=float, default=0.05, metavar="SHARE", help="by which the gate lets a distance grow; 0.05"
    )
    parser.add_argument("--eyes", metavar="A,B", help="landmarks whose distance normalises the NME")


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    from rotopaint_ai.cli import OK, WORSE
    from rotopaint_ai.training.evaluation import gate

    eyes = _eyes(arguments)
    cancel = Cancel()
    with stopping_on_signals(cancel):
        found = [_measured(arguments, pack, eyes, cancel.check) for pack in _packs(arguments)]
    results = [each.result for each in found]
    compared = gate.compare(results[0], results[1], arguments.tolerance) if len(results) > 1 else []
    _write(arguments, found[0], compared, results)
    print(table(results))
    if left := not_measured(arguments, found[0].dataset):
        print(left)
    for line in _learned(found, _packs(arguments)):
        print(line)
    if len(results) > 1:
        print(gate.text(compared, (results[0]["pack"], results[1]["pack"])))
    return WORSE if any(each.is_worse for each in compared) else OK


def _eyes(arguments: argparse.Namespace) -> tuple[str, str] | None:
    from rotopaint_ai.errors import UsageError

    if arguments.tolerance < 0:
        raise UsageError(f"--tolerance {arguments.tolerance}: wanted 0 or more, such as 0.05")
    if arguments.eyes is None:
        return None
    one, comma, other = arguments.eyes.partition(",")
    if not comma or not one or not other:
        raise UsageError(f"--eyes {arguments.eyes}: wanted two landmarks, such as eye_right_outer,eye_left_outer")
    return one.strip(), other.strip()


def _packs(arguments: argparse.Namespace) -> list[str]:
    return [arguments.pack, *([arguments.against] if arguments.against else [])]


def _measured(arguments: argparse.Namespace, pack: str, eyes: tuple[str, str] | None, check: Callable[[], None]) -> Any:
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.training.data.dataset import read_dataset
    from rotopaint_ai.training.evaluation.evaluate import measure_pack

    dataset = read_dataset(arguments.dataset)
    if arguments.split is None:
        return measure_pack(pack, dataset, check=check, eyes=eyes)
    if arguments.split == ALL:
        return measure_pack(pack, dataset, splits=SPLITS, check=check, eyes=eyes)
    if not len(dataset.rows_of(arguments.split)):
        have = sorted({sample.split for sample in dataset.samples})
        raise UsageError(f"--split {arguments.split}: data set '{dataset.name}' has none; it has {', '.join(have)}")
    return measure_pack(pack, dataset, splits=(arguments.split,), check=check, eyes=eyes)


def not_measured(arguments: argparse.Namespace, dataset: Any) -> str:
    """A line on samples that were left alone, where nobody chose."""
    from rotopaint_ai.training.data.dataset import read_dataset

    samples = read_dataset(arguments.dataset).samples
    splits = {sample.split for sample in dataset.samples}
    shots = dict.fromkeys(sample.shot for sample in samples if sample.split not in splits)
    if arguments.split is not None or not shots or "test" in splits:
        return ""
    left = sum(sample.split not in splits for sample in samples)
    return (
        f"not measured: {left} samples to learn from ({', '.join(list(shots)[:6])}); --split all takes them too, and "
        "'mine --test SHOT' marks shots for tests"
    )


def _learned(found: Sequence[Any], packs: Sequence[str]) -> list[str]:
    """What to know of figures that are of samples learned from."""
    lines = []
    for result, pack in ((each.result, pack) for each, pack in zip(found, packs) if each.result["has_learned_them"]):
        judged = Path(f"{pack.rstrip('/')}.run") / "judged"
        before = f"; {judged} is the pack before it learned from held-out ones" if judged.is_dir() else ""
        lines.append(
            f"{result['pack']} has learned from some of these samples, its figures flatter it: 'mine --test SHOT' "
            f"keeps shots for tests{before}"
        )
    return lines


def _write(
    arguments: argparse.Namespace, found: Any, compared: Sequence[Any], results: Sequence[Mapping[str, Any]]
) -> None:
    from rotopaint_ai.files import write_json
    from rotopaint_ai.training.data.dataset import write_picture
    from rotopaint_ai.training.evaluation import page
    from rotopaint_ai.training.evaluation.contact_sheets import worst_cases

    against = results[1] if len(results) > 1 else None
    if arguments.json:
        gate = [each.content() for each in compared] if against else None
        write_json(Path(arguments.json), {"result": results[0], "against": against, "gate": gate})
    worst = worst_cases(found.dataset, found.predicted) if arguments.html or arguments.contact else None
    if arguments.contact and worst is not None:
        write_picture(Path(arguments.contact), worst)
    if arguments.html and worst is not None:
        page.write_page(Path(arguments.html), results[0], worst, compared, against)


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The main numbers of one or two evaluations, side by side."""
    head = f"{'':38}" + "".join(f"{result['pack']:>16}" for result in results)
    rows = [
        f"{f'{name}, {unit}' if unit else name:38}" + "".join(f"{_shown(result, path):>16}" for result in results)
        for name, unit, path in LINES
    ]
    n = results[0]["n_samples"]
    lines = [f"{results[0]['dataset']}: {n} samples ({', '.join(results[0]['splits'])})", head, *rows]
    for result in results:
        if result["missing"]:
            lines.append(f"{result['pack']} has no {', '.join(result['missing'][:8])}; measured on what it has")
    return "\n".join(lines)


def _shown(result: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = result
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return "-" if value is None else f"{value:.3f}"
