"""From finished roto and its plates to a data set: the whole of `rotopaint mine` in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rotopaint_ai.errors import UsageError
from rotopaint_ai.sheet import Sheet, load_sheet
from rotopaint_ai.training.data.dataset import write_dataset
from rotopaint_ai.training.mining import bare, check, crop, families, namesakes, propose, reference, residuals, write
from rotopaint_ai.training.mining.drawn import as_drawn
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.frontal import frontal_places
from rotopaint_ai.training.mining.join import Joined, Row, join
from rotopaint_ai.training.mining.order import Content, Exclusion, Shot, choose_tests, choose_val
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.propose import Plan
from rotopaint_ai.training.mining.residuals import Residual
from rotopaint_ai.training.mining.sources import FrameTruth, Word
from rotopaint_ai.training.mining.suspicious import Finding
from rotopaint_ai.training.mining.truth import Truth

SIZE = 400  # pixels of a picture's side


@dataclass(frozen=True, slots=True)
class MineOrder:
    """What to mine. `plates` may hold `{dir}` and `{stem}`; `val` names shots to hold out (`none` for none),
    `test` those that are only measured on (`all` for all)."""

    sources: tuple[Path, ...]
    out: Path
    plates: str | None = None
    sheet: Path | None = None
    character: str | None = None
    name: str | None = None
    licence: str = "not stated"
    size: int = SIZE
    face_share: float = crop.FACE_SHARE
    tolerance_px: float = propose.TOLERANCE_PX
    val: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    exclude: Exclusion = field(default_factory=Exclusion)
    renames: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mined:
    """What came of it. `failed`: frames whose plate could not be read."""

    sheet: Sheet
    n_samples: Mapping[str, int]
    table: tuple[Residual, ...]
    findings: tuple[tuple[str, int, Finding], ...]
    notes: tuple[str, ...]
    failed: tuple[str, ...]
    excluded: int


def mine(order: MineOrder, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Mined:
    """Mine sources into the data set folder `order.out`.

    Besides the data set the folder gets `mining/residuals.txt` and `.json`, `mining/suspicious.json` and pictures of
    suspicious frames. Raises: UsageError, DocumentError, PlateError, PackError (the sheet), TrainingError.
    """
    if order.out.exists() and not order.out.is_dir():
        raise UsageError(f"--out {order.out}: is a file; wanted a folder for the data set")
    joined = join(order.sources, order.plates, character=order.character, renames=order.renames)
    return mine_joined(joined, order, progress=progress)


def mine_joined(
    joined: Joined, order: MineOrder, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> Mined:
    """As `mine`, from frames that were read already."""
    order.exclude.check([row.shot for row in joined.rows])
    rows = tuple(row for row in joined.rows if not order.exclude.covers(row.shot, row.frame))
    if not rows:
        raise UsageError("--exclude: leaves no frame; name fewer")
    tests = choose_tests([row.shot for row in rows], order.test)
    rows = tuple(replace(row, split="test") if row.shot in tests else row for row in rows)
    shots = _contents(rows)
    val, said = _held_out(rows, shots, order)
    truth = vectorise(replace(joined, rows=rows), order)
    write.clear(order.out)
    pictures, thumbs, failed = write.cut_all(
        truth, order.out, size=order.size, face_share=order.face_share, progress=progress
    )
    findings = check.findings(truth, thumbs, order.tolerance_px)
    dropped = _dropped(truth, findings, order.exclude.kinds)
    kept = [row for row in sorted(pictures) if row not in dropped]
    samples = [write.sample(truth, row, pictures[row], val) for row in kept]
    usable = [sample for sample in samples if len(sample.landmarks) >= 2]
    notes = [*joined.notes, *namesakes.notes(truth, rows), *said]
    if samples and not usable:
        raise UsageError("; ".join(["no frame has 2 landmarks of the sheet", *notes[-1:]]))
    if len(usable) < len(samples):
        notes.append(f"{len(samples) - len(usable)} frames have fewer than 2 landmarks and were left out")
    name = order.name or "-".join(dict.fromkeys(row.character for row in rows))
    table = check.table(truth)
    check.report(truth, pictures, table, findings, order.out / "mining")
    write_dataset(order.out, name=name, licence=order.licence, sheet=truth.sheet, samples=usable)
    write.tidy(order.out, {sample.image for sample in usable}, pictures.values())
    for plate in {id(row.plate): row.plate for row in rows}.values():
        plate.close()
    counts = {split: sum(sample.split == split for sample in usable) for split in ("train", "val", "test")}
    named = tuple((rows[each.row].shot, rows[each.row].frame, each) for each in findings)
    excluded = len(joined.rows) - len(rows) + len(dropped & set(pictures))
    return Mined(truth.sheet, counts, tuple(table), named, tuple(notes), tuple(failed), excluded)


def _contents(rows: Sequence[Row]) -> dict[Shot, Content]:
    """What is in each shot of which nobody has said what it is for."""
    found: dict[Shot, list[Row]] = {}
    for row in rows:
        if row.split is None:
            found.setdefault((row.character, row.shot), []).append(row)
    return {
        shot: Content(len(own), {name for row in own for name in (*row.truth.shapes, *row.truth.landmarks)})
        for shot, own in found.items()
    }


def _held_out(rows: Sequence[Row], shots: Mapping[Shot, Content], order: MineOrder) -> tuple[set[Shot], list[str]]:
    """Shots to hold out, and what is to be said of it. Corrections are there to be learnt from: of them only what the
    data set holds out that they are mined for, by its sheet."""
    if order.val or not all(_is_correction(row.truth) for row in rows):
        val = choose_val(shots, order.val)
        return val, _held_out_said(shots, val, order)
    val = set(shots) & (set() if order.sheet is None else reference.held_out(order.sheet))
    names = ", ".join(sorted(shot for _, shot in val))
    return val, [f"{names}: held out, as in the data set of the sheet"] if val else []


def _is_correction(truth: FrameTruth) -> bool:
    """Whether all that is known of a frame comes from a project."""
    words = {*(shape.word for shape in truth.shapes.values()), *map(truth.word, truth.landmarks)}
    return Word.FINISHED not in words


def _held_out_said(shots: Mapping[Shot, Content], val: Set[Shot], order: MineOrder) -> list[str]:
    """Why no shot is held out, where several of one character could be."""
    if val or order.val or len({character for character, _ in shots}) == len(shots):
        return []
    return [
        "no shot is held out, each has shapes or landmarks of its own: training holds out the ends of shots; --val "
        "SHOT chooses one"
    ]


def _dropped(truth: Truth, findings: Sequence[Finding], kinds: Set[str]) -> set[int]:
    """Rows of the kinds to leave out; a shifted shot goes as a whole."""
    rows = {each.row for each in findings if each.kind in kinds}
    shots = {truth.shots[each.row] for each in findings if each.kind in kinds and each.kind == "shifted"}
    return rows | {row for row, shot in enumerate(truth.shots) if shot in shots}


def vectorise(joined: Joined, order: MineOrder) -> Truth:
    """Every shape on fixed control points, and the landmarks that go with them; no picture is looked at."""
    rows, names = joined.rows, list(joined.landmark_names)
    n_rows, sheet = len(rows), None if order.sheet is None else load_sheet(order.sheet)
    if order.sheet is not None:
        rows = (*rows, *reference.rows_of(order.sheet, rows[0].plate))
    faces, marks = families.find_faces(rows, names)
    keys = [(row.character, row.shot) for row in rows]
    shots = np.unique([list(dict.fromkeys(keys)).index(key) for key in keys], return_inverse=True)[1].astype(np.intp)
    shapes = families.collect(rows, faces, shots)
    if sheet is not None:
        shapes = tuple(shape for shape in shapes if shape.name in sheet.shape_names)
    fixed = {} if sheet is None else {each.name: each.mirror or each.name for each in sheet.landmarks}
    stepped = families.bring_into_step(
        shapes, names, marks, faces, fixed={k: v for k, v in fixed.items() if k in names}
    )
    planned = [plan for family in stepped for plan in _planned(family, sheet, order.tolerance_px, rows, n_rows)]
    if sheet is not None:
        specs = {spec.name: spec for spec in sheet.shapes}
        planned = [as_drawn(plan, specs[plan.shape.name], rows, n_rows, faces, marks) for plan in planned]
    plans = [reference.plan_without(plan, n_rows) for plan in planned if plan.shape.rows[0] < n_rows]
    rows, shots, marks, faces = rows[:n_rows], shots[:n_rows], marks[:n_rows], reference.faces_without(faces, n_rows)
    plans.sort(key=lambda plan: [shape.name for shape in shapes].index(plan.shape.name))
    if sheet is None:
        if names:
            plans = [propose.sitting(plan, names, marks, faces) for plan in plans]
            plans = bare.covered(plans, _mean_places(marks, faces), faces)
        else:
            plans = propose.with_own_landmarks(plans)
        names, marks = _with_points(names, marks, plans, rows)
        title = order.name or "-".join(dict.fromkeys(row.character for row in rows))
        mean = _mean_places(marks, faces)
        frontal = frontal_places(faces.to_face(marks[..., :2], np.arange(len(marks))), mean, names)
        sheet = propose.build_sheet(title, plans, names, mean, frontal, faces)
    else:
        names, marks = _with_points(names, marks, plans, rows)
        marks = _in_order(marks, names, sheet.landmark_names)
        names = list(sheet.landmark_names)
    distances = tuple(residuals.distances(plan.shape.raw, plan.points_FP6, plan.shape.closed) for plan in plans)
    return Truth(rows, shots, tuple(names), marks, faces, tuple(plans), distances, sheet)


def _planned(
    family: families.Family, sheet: Sheet | None, tolerance_px: float, rows: Sequence[Row], first: int
) -> list[Plan]:
    """Plans of a family; rows from `first` on are frames that a sheet comes from."""
    if sheet is None:
        return propose.plan_family(family, tolerance_px=tolerance_px)
    specs = {spec.name: spec for spec in sheet.shapes}
    own = [specs[member.shape.name] for member in family.members]
    for member, spec in zip(family.members, own):
        if member.shape.closed != spec.closed:
            raise UsageError(
                f"shape '{spec.name}': {'closed' if member.shape.closed else 'open'} in the roto, "
                f"{'closed' if spec.closed else 'open'} in the sheet; rename it or mend the sheet"
            )
    plans = []
    for at, spec in enumerate(own[:1] if family.own_mirror else own):
        known = reference.places_on(family.members[at], rows, spec.n_points, first)
        plans.append(propose.plan_as_told(family, at, spec, known))
    return plans


def _with_points(
    names: Sequence[str], marks: Array, plans: Sequence[Plan], rows: Sequence[Row]
) -> tuple[list[str], Array]:
    """Landmarks with those added that are control points and that no source gives."""
    names, columns = list(names), [_filled(names, marks, plans, rows)]
    for plan in plans:
        for point, name in plan.on_landmarks.items():
            if name in names:
                continue
            column = np.full((len(marks), 1, 3), np.nan)
            column[plan.shape.rows, 0, :2] = plan.points_FP6[:, point, :2]
            column[plan.shape.rows, 0, 2] = 1.0
            names.append(name)
            columns.append(column)
    return names, np.concatenate(columns, axis=1)


def _filled(names: Sequence[str], marks: Array, plans: Sequence[Plan], rows: Sequence[Row]) -> Array:
    """Landmarks of finished roto by its control points, where a model alone has said where they are, or nobody has."""
    out, nobody = marks.copy(), _without_landmarks(rows)
    for plan in plans:
        for point, name in plan.on_landmarks.items() if names else ():
            at = [
                place
                for place, row in enumerate(plan.shape.rows)
                if row in nobody or _is_let_stand(rows[row].truth, name, plan.shape.name)
            ]
            if at and name in names:
                out[plan.shape.rows[at], names.index(name), :2] = plan.points_FP6[at, point, :2]
                out[plan.shape.rows[at], names.index(name), 2] = 1.0
    return out


def _without_landmarks(rows: Sequence[Row]) -> set[int]:
    """Frames without a landmark, where only corrected projects give any: in a show of bare roto shapes carry them."""
    marked = [row.truth for row in rows if row.truth.landmarks]
    if any(truth.word(name) == Word.FINISHED for truth in marked for name in truth.landmarks):
        return set()
    return {at for at, row in enumerate(rows) if not row.truth.landmarks}


def _is_let_stand(truth: FrameTruth, landmark: str, shape: str) -> bool:
    """Whether a model's word for a landmark stands against a finished shape."""
    known = landmark in truth.landmarks and truth.word(landmark) == Word.LET_STAND
    return known and truth.shapes[shape].word == Word.FINISHED


def _in_order(marks: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    out = np.full((len(marks), len(wanted), 3), np.nan)
    for at, name in enumerate(wanted):
        if name in names:
            out[:, at] = marks[:, names.index(name)]
    return out


def _mean_places(marks: Array, faces: Faces) -> Array:
    places = faces.to_face(marks[..., :2], np.arange(len(marks)))
    known = np.isfinite(places[..., 0]).any(axis=0)
    mean = np.full((marks.shape[1], 2), np.nan)
    mean[known] = np.nanmedian(places[:, known], axis=0)
    return mean
