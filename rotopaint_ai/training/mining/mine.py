"""From finished roto and its plates to a data set: the whole of `rotopaint mine` in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from rotopaint_ai.errors import UsageError
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.dataset import write_dataset
from rotopaint_ai.training.mining.join import JoinedFrame, JoinedTakes, join_sources
from rotopaint_ai.training.mining.label_checks import check_labels
from rotopaint_ai.training.mining.mining_report import CurveResidual, alias_notes, residual_table, write_report
from rotopaint_ai.training.mining.options import (
    LabelIssue,
    MineOptions,
    Shot,
    ShotContent,
    choose_tests,
    choose_val,
)
from rotopaint_ai.training.mining.samples import claimed_dataset, clear_dataset, cut_all, make_sample, remove_unused
from rotopaint_ai.training.mining.sheet_proposal import val_shots_of_sheet
from rotopaint_ai.training.mining.takes import FrameTruth, Provenance
from rotopaint_ai.training.mining.vectorise import MinedTruth, vectorise
from rotopaint_ai.watch import Progress, silent


@dataclass(frozen=True, slots=True)
class Mined:
    """What came of it. `failed`: frames whose plate could not be read."""

    sheet: Sheet
    n_samples: Mapping[str, int]
    table: tuple[CurveResidual, ...]
    issues: tuple[tuple[str, int, LabelIssue], ...]
    notes: tuple[str, ...]
    failed: tuple[str, ...]
    excluded: int


def mine(options: MineOptions, *, progress: Progress = silent, workers: Executor | None = None) -> Mined:
    """Mine sources into the data set folder `options.out`, its parts by workers elsewhere where there are any.

    Besides the data set the folder gets `mining/residuals.txt` and `.json`, `mining/suspicious.json` and pictures of
    suspicious frames. Raises: UsageError, DocumentError, PlateError, PackError (the sheet), TrainingError.
    """
    with claimed_dataset(options.out):
        joined = join_sources(
            options.sources,
            options.plates,
            character=options.character,
            renames=options.renames,
            interpolated=options.interpolated,
            progress=progress,
            workers=workers,
        )
        return mine_joined(joined, options, progress=progress, workers=workers)


def mine_joined(
    joined: JoinedTakes, options: MineOptions, *, progress: Progress = silent, workers: Executor | None = None
) -> Mined:
    """As `mine`, from frames that were read already."""
    options.exclude.check([row.shot for row in joined.rows])
    rows = tuple(row for row in joined.rows if not options.exclude.covers(row.shot, row.frame))
    if not rows:
        raise UsageError("--exclude: leaves no frame; name fewer")
    tests = choose_tests([row.shot for row in rows], options.test)
    rows = tuple(replace(row, split="test") if row.shot in tests else row for row in rows)
    shots = _shot_contents(rows)
    val, val_notes = _val_shots(rows, shots, options)
    truth = vectorise(replace(joined, rows=rows), options, progress=progress, workers=workers)
    clear_dataset(options.out)
    pictures, thumbs, failed = cut_all(
        truth, options.out, size=options.size, face_share=options.face_share, progress=progress, workers=workers
    )
    issues = check_labels(truth, thumbs, options.tolerance_px, progress=progress)
    dropped = _excluded_rows(truth, issues, options.exclude.kinds)
    kept = [row for row in sorted(pictures) if row not in dropped]
    samples = [make_sample(truth, row, pictures[row], val) for row in kept]
    usable = [sample for sample in samples if len(sample.landmarks) >= 2]
    notes = [*joined.notes, *alias_notes(truth, rows), *val_notes]
    if samples and not usable:
        raise UsageError("; ".join(["no frame has 2 landmarks of the sheet", *notes[-1:]]))
    if len(usable) < len(samples):
        notes.append(f"{len(samples) - len(usable)} frames have fewer than 2 landmarks and were left out")
    name = options.name or "-".join(dict.fromkeys(row.character for row in rows))
    table = residual_table(truth)
    notes += write_report(truth, pictures, table, issues, options.out / "mining")
    write_dataset(options.out, name=name, licence=options.licence, sheet=truth.sheet, samples=usable)
    remove_unused(options.out, {sample.image for sample in usable}, pictures.values())
    for plate in {id(row.plate): row.plate for row in rows}.values():
        plate.close()
    counts = {split: sum(sample.split == split for sample in usable) for split in ("train", "val", "test")}
    named = tuple((rows[each.row].shot, rows[each.row].frame, each) for each in issues)
    excluded = len(joined.rows) - len(rows) + len(dropped & set(pictures))
    return Mined(truth.sheet, counts, tuple(table), named, tuple(notes), tuple(failed), excluded)


def _shot_contents(rows: Sequence[JoinedFrame]) -> dict[Shot, ShotContent]:
    """What is in each shot of which no source says what it is for."""
    found: dict[Shot, list[JoinedFrame]] = {}
    for row in rows:
        if row.split is None:
            found.setdefault((row.character, row.shot), []).append(row)
    return {
        shot: ShotContent(
            len(own),
            {name for row in own for name in (*row.truth.shapes, *row.truth.landmarks)},
            has_shapes=any(row.truth.shapes for row in own),
        )
        for shot, own in found.items()
    }


def _val_shots(
    rows: Sequence[JoinedFrame], shots: Mapping[Shot, ShotContent], options: MineOptions
) -> tuple[set[Shot], list[str]]:
    """Shots to hold out, and what is to be said of it. Corrections are there to be learnt from: of them only what the
    data set holds out that they are mined for, by its sheet."""
    if options.val or not all(_is_correction(row.truth) for row in rows):
        val = choose_val(shots, options.val)
        return val, _why_none_val(shots, val, options)
    val = set(shots) & (set() if options.sheet is None else val_shots_of_sheet(options.sheet))
    names = ", ".join(sorted(shot for _, shot in val))
    return val, [f"{names}: held out, as in the data set of the sheet"] if val else []


def _is_correction(truth: FrameTruth) -> bool:
    """Whether all that is known of a frame comes from a project."""
    provenances = {*(shape.provenance for shape in truth.shapes.values()), *map(truth.provenance_of, truth.landmarks)}
    return Provenance.FINAL not in provenances


def _why_none_val(shots: Mapping[Shot, ShotContent], val: Set[Shot], options: MineOptions) -> list[str]:
    """Why no shot is held out, where several of one character could be."""
    if val or options.val or len({character for character, _ in shots}) == len(shots):
        return []
    return [
        "no shot is held out, each has shapes or landmarks of its own: training holds out the ends of shots; --val "
        "SHOT chooses one"
    ]


def _excluded_rows(truth: MinedTruth, issues: Sequence[LabelIssue], kinds: Set[str]) -> set[int]:
    """Rows of the kinds to leave out; a shifted shot goes as a whole."""
    rows = {each.row for each in issues if each.kind in kinds}
    shots = {truth.shots[each.row] for each in issues if each.kind in kinds and each.kind == "shifted"}
    return rows | {row for row, shot in enumerate(truth.shots) if shot in shots}
