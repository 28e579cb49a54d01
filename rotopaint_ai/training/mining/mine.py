"""The whole of `rotopaint mine`: from finished roto and its plates to a data set, with reports.

The reports are residuals per shape and shot, label issues with pictures, and shapes that are missing in some shots.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError, UsageError, in_one_line, list_names
from rotopaint_ai.files import file_bytes, write_json, write_text
from rotopaint_ai.plates.coded_pictures import write_picture
from rotopaint_ai.shapes.revectorise.mean_face import typical_curve
from rotopaint_ai.shapes.revectorise.raw_curves import Array
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.dataset import write_dataset
from rotopaint_ai.training.mining.join import JoinedFrame, JoinedTakes, join_sources
from rotopaint_ai.training.mining.label_checks import check_labels
from rotopaint_ai.training.mining.mined_samples import (
    WrittenPicture,
    clear_dataset,
    cut_all,
    file_name_of,
    locked_dataset,
    make_sample,
    refuse_plates_in,
    remove_unused,
)
from rotopaint_ai.training.mining.options import (
    HARMLESS,
    LabelIssue,
    MineOptions,
    ShotContent,
    ShotKey,
    choose_tests,
    choose_val,
)
from rotopaint_ai.training.mining.plans import ShapePlan
from rotopaint_ai.training.mining.sheet_proposal import val_shots_of_sheet
from rotopaint_ai.training.mining.takes import FrameTruth, Provenance
from rotopaint_ai.training.mining.vectorise import MinedTruth, vectorise
from rotopaint_ai.watch import StageProgress, ignore_progress


@dataclass(frozen=True, slots=True)
class MineReport:
    """The result of mining.

    `failed`: frames whose plate could not be read or measured. `n_missing`: frames in holes of a plate.
    """

    sheet: Sheet
    n_samples: Mapping[str, int]
    table: tuple[CurveResidual, ...]
    issues: tuple[tuple[str, int, LabelIssue], ...]
    notes: tuple[str, ...]
    failed: tuple[str, ...]
    excluded: int
    n_missing: int = 0


def mine(
    options: MineOptions, *, progress: StageProgress = ignore_progress, workers: Executor | None = None
) -> MineReport:
    """Mine sources into the data set folder `options.out`, with remote workers if there are any.

    The folder also gets `mining/residuals.txt` and `.json`, `mining/suspicious.json` and pictures of suspicious frames.
    Raises: UsageError, also where the folder was mined from sources that are not given now; DocumentError, PlateError,
    PackError (the sheet), TrainingError.
    """
    with locked_dataset(options.out, options.sources, overwrite=options.overwrite):
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
    joined: JoinedTakes,
    options: MineOptions,
    *,
    progress: StageProgress = ignore_progress,
    workers: Executor | None = None,
) -> MineReport:
    """As `mine`, from frames that were already read."""
    refuse_plates_in(options.out, {id(row.plate): row.plate for row in joined.rows}.values())
    options.exclude.check([row.shot for row in joined.rows])
    rows = tuple(row for row in joined.rows if not options.exclude.covers(row.shot, row.frame))
    if not rows:
        raise UsageError("--exclude: leaves no frame; exclude fewer")
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
    every = {(row.shot, row.frame) for row in joined.rows}
    notes = [*joined.notes, *options.exclude.idle(every), *alias_notes(truth, rows), *val_notes]
    if samples and not usable:
        raise UsageError("; ".join(["no frame has 2 landmarks of the sheet", *notes[-1:]]))
    if len(usable) < len(samples):
        notes.append(f"{len(samples) - len(usable)} frames have fewer than 2 landmarks and were left out")
    name = options.name or "-".join(dict.fromkeys(row.character for row in rows))
    table = residual_table(truth)
    notes += write_mining_report(truth, pictures, table, issues, options.out / "mining")
    write_dataset(options.out, name=name, licence=options.licence, sheet=truth.sheet, samples=usable)
    remove_unused(options.out, {sample.image for sample in usable}, pictures.values())
    for plate in {id(row.plate): row.plate for row in rows}.values():
        plate.close()
    counts = {split: sum(sample.split == split for sample in usable) for split in ("train", "val", "test")}
    named = tuple((rows[each.row].shot, rows[each.row].frame, each) for each in issues)
    shot_of = {id(row.plate): row.shot for row in joined.rows}
    n_missing = sum(not options.exclude.covers(shot_of.get(id(plate), ""), frame) for plate, frame in joined.missing)
    excluded = len(joined.rows) - len(rows) + len(dropped & set(pictures))
    return MineReport(truth.sheet, counts, tuple(table), named, tuple(notes), tuple(failed), excluded, n_missing)


def _shot_contents(rows: Sequence[JoinedFrame]) -> dict[ShotKey, ShotContent]:
    """The content of each shot to which no source assigns a split."""
    found: dict[ShotKey, list[JoinedFrame]] = {}
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
    rows: Sequence[JoinedFrame], shots: Mapping[ShotKey, ShotContent], options: MineOptions
) -> tuple[set[ShotKey], list[str]]:
    """The validation shots, and notes for the user.

    Corrected projects become training data, except shots that the sheet's data set already uses for validation.
    """
    if options.val or not all(_is_correction(row.truth) for row in rows):
        val = choose_val(shots, options.val)
        return val, _why_none_val(shots, val, options)
    val = set(shots) & (set() if options.sheet is None else val_shots_of_sheet(options.sheet))
    names = ", ".join(sorted(shot for _, shot in val))
    return val, [f"{names}: validation, as in the data set of the sheet"] if val else []


def _is_correction(truth: FrameTruth) -> bool:
    """Whether all labels of a frame come from a project."""
    provenances = {*(shape.provenance for shape in truth.shapes.values()), *map(truth.provenance_of, truth.landmarks)}
    return Provenance.FINAL not in provenances


def _why_none_val(shots: Mapping[ShotKey, ShotContent], val: Set[ShotKey], options: MineOptions) -> list[str]:
    """A note if no shot became validation although a character has several."""
    if val or options.val or len({character for character, _ in shots}) == len(shots):
        return []
    return [
        "no shot is used for validation, because each has shapes or landmarks that no other has: training validates on "
        "the ends of shots; --val SHOT chooses a shot"
    ]


def _excluded_rows(truth: MinedTruth, issues: Sequence[LabelIssue], kinds: Set[str]) -> set[int]:
    """Rows of the kinds to leave out; a shifted shot is left out as a whole."""
    rows = {each.row for each in issues if each.kind in kinds}
    shots = {truth.shots[each.row] for each in issues if each.kind in kinds and each.kind == "shifted"}
    return rows | {row for row, shot in enumerate(truth.shots) if shot in shots}


_MOST_PICTURES = 60  # most pictures of suspicious frames
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_MOST_LINES = 6  # most caption lines on a picture
_SAME_PLACE = 0.03  # face units: two shapes at mean positions this close may be the same shape
_MOST_NAMES = 8  # most names in one line


def write_mining_report(
    truth: MinedTruth,
    pictures: Mapping[int, WrittenPicture],
    table: Sequence[CurveResidual],
    issues: Sequence[LabelIssue],
    folder: Path,
) -> list[str]:
    """Write the residual table, the list of suspicious frames and a picture of each (the first 60) to `folder`.

    `suspicious.txt` has a line for each frame, as `--exclude @FILE` reads it, with the reason after a `#`: delete the
    lines of correct frames and mine again. An edited list is kept; the returned note says so.
    """
    write_text(folder / "residuals.txt", residual_text(table) if table else "no shapes\n")
    write_json(folder / "residuals.json", [line.content() for line in table])
    listed = []
    shown: dict[int, str] = {}
    for each in issues:
        source = truth.rows[each.row]
        if each.row in pictures and each.row not in shown and len(shown) < _MOST_PICTURES:
            name = f"{file_name_of(source.shot)}_{source.frame:04d}.jpg"
            own = [other for other in issues if other.row == each.row]
            picture = _draw_issues(truth, each.row, pictures[each.row], folder.parent, own)
            write_picture(folder / name, picture)
            shown[each.row] = name
        issue = {"kind": each.kind, "about": each.about, "text": each.text, "picture": shown.get(each.row)}
        listed.append({"shot": source.shot, "frame": source.frame, **issue})
    write_json(folder / "suspicious.json", listed)
    harmful = sorted({each.row for each in issues if each.kind not in HARMLESS})  # the other kinds need not be excluded
    lines = "".join(f"{_exclude_line(truth, issues, row)}\n" for row in harmful)
    return _write_list(folder / "suspicious.txt", lines)


def _write_list(path: Path, lines: str) -> list[str]:
    """Write the list; if the present one was edited, write to a second file instead."""
    edited = _is_edited(path)
    written = path.with_name(f"{path.stem}.new{path.suffix}") if edited else path
    write_text(written, f"{_checksum_line(lines)}{lines}")
    return [f"{path.parent.name}/{path.name} was edited and is kept; the new list is {written.name}"] if edited else []


def _checksum_line(lines: str) -> str:
    return f"# {hashlib.sha256(lines.encode()).hexdigest()[:16]}: mine rewrites this list until somebody edits it\n"


def _is_edited(path: Path) -> bool:
    try:
        first, _, lines = file_bytes(path).decode("utf-8", "replace").partition("\n")
    except FileNotFoundError:
        return False
    return f"{first}\n" != _checksum_line(lines)


def _exclude_line(truth: MinedTruth, issues: Sequence[LabelIssue], row: int) -> str:
    own = [each for each in issues if each.row == row and each.kind not in HARMLESS]
    source, whole = truth.rows[row], any("whole shot" in each.text for each in own)
    words = "; ".join(f"{each.kind}: {each.about}: {each.text}" for each in own[:3]).replace(",", "")
    return f"{source.shot if whole else f'{source.shot}:{source.frame}'}  # {words}"


def _draw_issues(
    truth: MinedTruth, row: int, picture: WrittenPicture, folder: Path, found: Sequence[LabelIssue]
) -> npt.NDArray[np.uint8]:
    """A picture (RGB) at twice the size with the fitted splines, their first points, and the landmarks.

    Suspicious parts are drawn thicker and described at the top.
    """
    decoded = cv2.imread(str(folder / picture.image), cv2.IMREAD_COLOR)
    if decoded is None:
        raise TrainingError(f"{folder / picture.image}: written a moment ago and cannot be read; is the disk full?")
    canvas = cv2.resize(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
    for number, (name, line) in enumerate(truth.curves(row).items()):
        closed = next(plan.shape.closed for plan in truth.plans if plan.shape.name == name)
        hue = np.array([[[number * 37 % 180, 200, 255]]], dtype=np.uint8)
        colour = tuple(int(v) for v in cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0])
        places = np.rint(picture.where.to_crop(line, picture.size) * 2 * 8).astype(np.int32)
        thick = 3 if any(_is_about(each, name) for each in found) else 1
        cv2.polylines(canvas, [places[:, None]], closed, colour, thick, cv2.LINE_AA, 3)
        cv2.circle(canvas, [int(v) for v in places[0]], 24, colour, -1, cv2.LINE_AA, 3)
    for name, (x, y) in zip(truth.names, picture.where.to_crop(truth.marks[row, :, :2], picture.size)):
        if np.isfinite(x):
            is_about = any(_is_about(each, name) for each in found)
            size, colour, thick = (80, (255, 60, 60), 2) if is_about else (12, (255, 255, 255), 1)
            cv2.circle(canvas, (round(x * 16), round(y * 16)), size, colour, thick, cv2.LINE_AA, 3)
    return _add_captions(np.asarray(canvas, dtype=np.uint8), found)


def _is_about(issue: LabelIssue, name: str) -> bool:
    return name in issue.about.removesuffix(" ...").split(", ")


def _add_captions(canvas: npt.NDArray[np.uint8], found: Sequence[LabelIssue]) -> npt.NDArray[np.uint8]:
    """The issues, one per line, on a darkened band that is readable on any plate."""
    shown = found[:_MOST_LINES]
    band = canvas[: 10 + 18 * len(shown)]
    band[:] = band // 3
    for line, each in enumerate(shown):
        text = f"{each.kind}: {each.about}: {each.text}".encode("ascii", "replace").decode()
        cv2.putText(canvas, text, (8, 20 + 18 * line), _FONT, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return canvas


@dataclass(frozen=True, slots=True)
class CurveResidual:
    """A shape in a shot: the mean over frames of the mean distance, its 95th percentile, and the largest distance."""

    shape: str
    shot: str
    n_frames: int
    n_artist: int
    n_points: int
    mean_px: float
    p95_px: float
    max_px: float

    def content(self) -> dict[str, object]:
        """The line of the table as JSON values."""
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


def residual_table(truth: MinedTruth) -> list[CurveResidual]:
    """The lines of every shape, per shot and, if there are several, for all shots."""
    lines = []
    for plan, distance in zip(truth.plans, truth.distances):
        shots = [truth.rows[row].shot for row in plan.shape.rows]
        names = list(dict.fromkeys(shots))
        for shot in [*names, *(["all"] if len(names) > 1 else [])]:
            rows = [row for row, own in enumerate(shots) if shot in (own, "all")]
            lines.append(_shot_residual(plan, distance[rows], shot, [len(plan.shape.raw[row]) for row in rows]))
    return lines


def _shot_residual(plan: ShapePlan, distance_F2: Array, shot: str, n_points: Sequence[int]) -> CurveResidual:
    mean, most = distance_F2.T
    return CurveResidual(
        plan.shape.name,
        shot,
        len(n_points),
        int(np.median(n_points)),
        len(plan.placement.shares),
        float(mean.mean()),
        float(np.quantile(mean, 0.95)),
        float(most.max()),
    )


def residual_text(lines: Sequence[CurveResidual]) -> str:
    """The table as text."""
    lines = [replace(line, shape=in_one_line(line.shape), shot=in_one_line(line.shot)) for line in lines]
    width = max([len(line.shape) for line in lines] + [5])
    shot = max([len(line.shot) for line in lines] + [4])
    head = f"{'shape':{width}}  {'shot':{shot}}  frames  points (artist)   mean px    95 %     max"
    rows = [
        f"{line.shape:{width}}  {line.shot:{shot}}  {line.n_frames:6d}  {line.n_points:6d} ({line.n_artist:d})".ljust(
            width + shot + 28
        )
        + f"{line.mean_px:9.3f} {line.p95_px:7.3f} {line.max_px:7.2f}"
        for line in lines
    ]
    return "\n".join([head, *rows]) + "\n"


def alias_notes(truth: MinedTruth, rows: Sequence[JoinedFrame]) -> list[str]:
    """Notes on shapes with different names at the same position, and on shapes that are missing in some shots."""
    shots = {plan.shape.name: frozenset(truth.shots[plan.shape.rows].tolist()) for plan in truth.plans}
    shots = {name: shots.get(name, frozenset()) for name in truth.sheet.shape_names}
    drawn = set().union(*shots.values())
    partial = {name: found for name, found in shots.items() if found and found != drawn}
    places = {plan.shape.name: typical_curve(plan.shape.face_FMC, 256) for plan in truth.plans}
    closed = {plan.shape.name: plan.shape.closed for plan in truth.plans}
    notes, alike = [], set()
    for one, two in combinations(partial, 2):
        if (
            closed[one] == closed[two]
            and not shots[one] & shots[two]
            and _curves_apart(places[one], places[two]) < _SAME_PLACE
        ):
            alike |= {one, two}
            where = (_shot_names(truth, shots[one]), _shot_names(truth, shots[two]))
            notes.append(
                f"'{two}' of {where[1]} lies at the position of '{one}' of {where[0]}: if it is the same shape, mine "
                f"again with --rename '{two}={one}'"
            )
    lacking = [f"{name} ({_shot_names(truth, drawn - found)})" for name, found in partial.items() if name not in alike]
    if lacking:
        notes.append(
            f"shapes missing in some shots: {list_names(lacking, _MOST_NAMES)}; they are trained on the other shots"
        )
    return [*notes, *_names_off_sheet(truth, rows)]


def _names_off_sheet(truth: MinedTruth, rows: Sequence[JoinedFrame]) -> list[str]:
    """Names that the sources have and the sheet lacks, and the reverse."""
    known = [name for name, column in zip(truth.names, truth.marks.transpose(1, 0, 2)) if np.isfinite(column).any()]
    drawn = dict.fromkeys(name for row in rows for name in row.truth.shapes)
    given = dict.fromkeys(name for row in rows for name in row.truth.landmarks)
    notes = []
    for kind, found, usable, named, more in (
        ("shapes", drawn, drawn, truth.sheet.shape_names, ""),
        ("landmarks", given, known, truth.sheet.landmark_names, "; they cannot be trained on this data"),
    ):
        if unknown := [name for name in found if name not in named]:
            left_out = list_names(unknown, _MOST_NAMES)
            notes.append(f"{kind} that are not in the sheet were left out: {left_out}; map them with --rename")
        if absent := [name for name in named if name not in usable]:
            notes.append(f"{kind} of the sheet that no source has: {list_names(absent, _MOST_NAMES)}{more}")
    return notes


def _shot_names(truth: MinedTruth, shots: frozenset[int] | set[int]) -> str:
    by_number: Mapping[int, str] = {int(n): row.shot for n, row in zip(truth.shots, truth.rows)}
    return list_names([by_number[number] for number in sorted(shots)], _MOST_NAMES)


def _curves_apart(one: Array, two: Array) -> float:
    """Mean distance between two sampled curves, the larger of both directions."""
    away = np.linalg.norm(one[:, None] - two[None], axis=2)
    return float(max(away.min(axis=0).mean(), away.min(axis=1).mean()))
