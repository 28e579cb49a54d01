"""From finished roto and its plates to a data set: the whole of `rotopaint mine` in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import PlateError, TrainingError, UsageError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.sheet import Sheet, load_sheet
from rotopaint_ai.shapes import bezier
from rotopaint_ai.training.dataset import Sample, ShapeTruth, Split, write_dataset, write_picture
from rotopaint_ai.training.mining import crop, families, propose, residuals, suspicious, symmetry
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.join import Joined, Row, join
from rotopaint_ai.training.mining.order import Exclusion, choose_val
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.propose import Plan
from rotopaint_ai.training.mining.register import Rows
from rotopaint_ai.training.mining.residuals import Residual
from rotopaint_ai.training.mining.suspicious import Finding

SIZE = 320  # pixels of a picture's side
_THUMB = 48  # pixels of the side of what frames are compared by
_MOST_PICTURES = 60  # of suspicious frames
_JPEG_QUALITY = 96

Thumb = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MineOrder:
    """What to mine. `plates` may hold `{dir}` and `{stem}`; `val` names shots to hold out (`none` for none)."""

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
    exclude: Exclusion = Exclusion()


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


@dataclass(frozen=True, slots=True)
class _Truth:
    """Everything known of all rows, in plate space. `marks`: [F, L, 3] landmarks of the sheet with their visibility."""

    rows: tuple[Row, ...]
    shots: Rows
    names: tuple[str, ...]
    marks: Array
    faces: Faces
    plans: tuple[Plan, ...]
    distances: tuple[Array, ...]
    sheet: Sheet


def mine(order: MineOrder, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Mined:
    """Mine sources into the data set folder `order.out`.

    Besides the data set the folder gets `mining/residuals.txt` and `.json`, `mining/suspicious.json` and pictures of
    suspicious frames. Raises: UsageError, DocumentError, PlateError, PackError (the sheet), TrainingError.
    """
    joined = join(order.sources, order.plates, character=order.character)
    order.exclude.check([row.shot for row in joined.rows])
    rows = tuple(row for row in joined.rows if not order.exclude.covers(row.shot, row.frame))
    if not rows:
        raise UsageError("--exclude: leaves no frame; name fewer")
    val = choose_val([(row.character, row.shot) for row in rows if row.split is None], order.val)
    truth = vectorise(replace(joined, rows=rows), order)
    pictures, thumbs, failed = _cut_all(truth, order, progress)
    findings = _findings(truth, thumbs, order.tolerance_px)
    dropped = {each.row for each in findings if each.kind in order.exclude.kinds}
    kept = [row for row in sorted(pictures) if row not in dropped]
    samples = [_sample(truth, row, pictures[row], val) for row in kept]
    usable = [sample for sample in samples if len(sample.landmarks) >= 2]
    notes = list(joined.notes)
    if len(usable) < len(samples):
        notes.append(f"{len(samples) - len(usable)} frames have fewer than 2 landmarks and were left out")
    name = order.name or "-".join(dict.fromkeys(row.character for row in rows))
    table = _table(truth)
    _report(truth, pictures, table, findings, order.out / "mining")
    write_dataset(order.out, name=name, licence=order.licence, sheet=truth.sheet, samples=usable)
    _tidy(order.out, {sample.image for sample in usable}, pictures.values())
    for plate in {id(row.plate): row.plate for row in rows}.values():
        plate.close()
    counts = {split: sum(sample.split == split for sample in usable) for split in ("train", "val", "test")}
    named = tuple((rows[each.row].shot, rows[each.row].frame, each) for each in findings)
    excluded = len(joined.rows) - len(rows) + len(dropped & set(pictures))
    return Mined(truth.sheet, counts, tuple(table), named, tuple(notes), tuple(failed), excluded)


def vectorise(joined: Joined, order: MineOrder) -> _Truth:
    """Every shape on fixed control points, and the landmarks that go with them; no picture is looked at."""
    rows, names = joined.rows, list(joined.landmark_names)
    sheet = None if order.sheet is None else load_sheet(order.sheet)
    faces, marks = families.find_faces(rows, names)
    keys = [(row.character, row.shot) for row in rows]
    shots = np.unique([list(dict.fromkeys(keys)).index(key) for key in keys], return_inverse=True)[1].astype(np.intp)
    shapes = families.collect(rows, faces, shots)
    if sheet is not None:
        shapes = tuple(shape for shape in shapes if shape.name in sheet.shape_names)
    fixed = {} if sheet is None else {each.name: each.mirror or each.name for each in sheet.landmarks}
    stepped = families.bring_into_step(shapes, names, marks, faces, fixed={k: v for k, v in fixed.items() if k in names})
    plans = [plan for family in stepped for plan in _planned(family, sheet, order.tolerance_px)]
    plans.sort(key=lambda plan: [shape.name for shape in shapes].index(plan.shape.name))
    if sheet is None:
        if not names:
            plans = propose.with_own_landmarks(plans)
        names, marks = _with_points(names, marks, plans)
        title = order.name or "-".join(dict.fromkeys(row.character for row in rows))
        sheet = propose.build_sheet(title, plans, names, _mean_places(marks, faces), faces)
    else:
        names, marks = _with_points(names, marks, plans)
        marks = _in_order(marks, names, sheet.landmark_names)
        names = list(sheet.landmark_names)
    distances = tuple(residuals.distances(plan.shape.raw, plan.points_FP6, plan.shape.closed) for plan in plans)
    return _Truth(rows, shots, tuple(names), marks, faces, tuple(plans), distances, sheet)


def _planned(family: families.Family, sheet: Sheet | None, tolerance_px: float) -> list[Plan]:
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
        plans.append(propose.plan_as_told(family, at, spec))
    return plans


def _with_points(names: Sequence[str], marks: Array, plans: Sequence[Plan]) -> tuple[list[str], Array]:
    """Landmarks with those added that are control points and that no source gives."""
    names, columns = list(names), [marks]
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


# --- pictures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Picture:
    image: str
    where: crop.Cut


def _cut_all(
    truth: _Truth, order: MineOrder, progress: Callable[[int, int], None]
) -> tuple[dict[int, _Picture], dict[int, Thumb], list[str]]:
    """Cut and write the picture of every row; also a thumbnail of a place in the plate that stays through a shot."""
    pictures, thumbs, failed = {}, {}, []
    still = {shot: _shot_cut(truth, np.flatnonzero(truth.shots == shot)) for shot in np.unique(truth.shots)}
    for row, source in enumerate(truth.rows):
        points = _extent(truth, row)
        if len(points) < 2:
            continue
        where = crop.frame_cut(points, size=order.size, face_share=order.face_share)
        try:
            frame = source.plate.read(source.frame, keep_native=False)
        except PlateError as error:
            failed.append(f"{source.shot} {source.frame}: {error}")
            continue
        image = f"images/{_safe(source.character)}_{_safe(source.shot)}_{source.frame:04d}.jpg"
        write_picture(order.out / image, crop.picture(frame, where), quality=_JPEG_QUALITY)
        pictures[row] = _Picture(image, where)
        small = crop.picture(frame, still[truth.shots[row]])
        thumbs[row] = np.asarray(small.mean(axis=2), dtype=np.float32)
        progress(row + 1, len(truth.rows))
    if not pictures:
        raise TrainingError(f"{order.out}: no frame of the plates could be read ({failed[0] if failed else 'none named'})")
    return pictures, thumbs, failed


def _extent(truth: _Truth, row: int) -> Array:
    """What the crop is centred on: the landmarks; shapes where there are fewer than three."""
    points = truth.marks[row, :, :2]
    points = points[np.isfinite(points[:, 0])]
    if len(points) >= 3:
        return np.asarray(points)
    return np.concatenate([points, *_curves(truth, row).values()])


def _curves(truth: _Truth, row: int) -> dict[str, Array]:
    found = {}
    for plan in truth.plans:
        at = int(np.searchsorted(plan.shape.rows, row))
        if at < len(plan.shape.rows) and plan.shape.rows[at] == row:
            found[plan.shape.name] = bezier.sample(plan.points_FP6[at], plan.shape.closed, per_segment=8)
    return found


def _shot_cut(truth: _Truth, rows: Rows) -> crop.Cut:
    clouds = [points for points in (_extent(truth, int(row)) for row in rows) if len(points)]
    points = np.concatenate(clouds) if clouds else np.array([[0.0, 0.0], [64.0, 64.0]])
    return crop.frame_cut(points, size=_THUMB, face_share=1.0)


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)


def _tidy(folder: Path, kept: set[str], pictures: Any) -> None:
    for picture in pictures:
        if picture.image not in kept:
            (folder / picture.image).unlink(missing_ok=True)


# --- samples ----------------------------------------------------------------------------------------------------------


def _sample(truth: _Truth, row: int, picture: _Picture, val: set[tuple[str, str]]) -> Sample:
    source, where = truth.rows[row], picture.where
    places = where.points(truth.marks[row, :, :2])
    landmarks = {
        name: (float(x), float(y), float(truth.marks[row, at, 2]))
        for at, (name, (x, y)) in enumerate(zip(truth.names, places))
        if np.isfinite(x)
    }
    shapes = {}
    for plan in truth.plans:
        at = int(np.searchsorted(plan.shape.rows, row))
        if at < len(plan.shape.rows) and plan.shape.rows[at] == row:
            width = plan.shape.width_px[at]
            points = where.spline(plan.points_FP6[at].copy())
            scaled = None if not np.isfinite(width) or width <= 0 else float(width * where.scale)
            shapes[plan.shape.name] = ShapeTruth(points.tolist(), scaled)
    split: Split = "val" if (source.character, source.shot) in val else "train"
    extent = where.points(_extent(truth, row))
    low, high = extent.min(axis=0), extent.max(axis=0)
    return Sample(
        image=picture.image,
        width=where.size,
        height=where.size,
        character=source.character,
        shot=source.shot,
        frame=source.frame,
        split="test" if source.split == "test" else split,
        landmarks=landmarks,
        shapes=shapes,
        face_box=(float(low[0]), float(low[1]), float(high[0] - low[0]), float(high[1] - low[1])),
        pixel_scale=round(where.scale, 6),
    )


# --- what to look at --------------------------------------------------------------------------------------------------


def _findings(truth: _Truth, thumbs: Mapping[int, Thumb], tolerance_px: float) -> list[Finding]:
    faces, everywhere = truth.faces, np.arange(len(truth.rows))
    places = faces.to_face(truth.marks[..., :2], everywhere)
    found = list(_swaps(truth, places))
    for plan, distance in zip(truth.plans, truth.distances):
        found += suspicious.misfits(plan, distance, tolerance_px) + suspicious.twisted(plan, plan.shape.twists)
    given = [at for at, name in enumerate(truth.names) if any(name in row.truth.landmarks for row in truth.rows)]
    for shot in np.unique(truth.shots):
        rows = np.flatnonzero(truth.shots == shot)
        frames = [truth.rows[row].frame for row in rows]
        if given:
            names = [truth.names[at] for at in given]
            found += suspicious.jumped("landmarks", names, places[rows][:, given], rows, frames)
        found += _shape_leaps(truth, rows)
        found += _timing(truth, thumbs, rows, frames, places)
        for row in rows:
            named = {**_curves(truth, int(row)), **_marks_by_name(truth, int(row))}
            plate = truth.rows[row].plate
            found += suspicious.outside(int(row), named, plate.width, plate.height)
    return sorted(set(found), key=lambda each: (each.row, suspicious.KINDS.index(each.kind), each.about))


def _swaps(truth: _Truth, places: Array) -> list[Finding]:
    middles = np.full((len(truth.rows), len(truth.plans), 2), np.nan)
    for column, plan in enumerate(truth.plans):
        middles[plan.shape.rows, column] = plan.shape.face_FMC.mean(axis=1)
    names = [plan.shape.name for plan in truth.plans]
    partner = {names.index(plan.shape.name): names.index(plan.twin) for plan in truth.plans if plan.twin in names}
    found = suspicious.swapped(truth.plans, middles, {}, truth.faces)
    return found + suspicious.swapped_landmarks(truth.names, places) if partner or truth.names else found


def _marks_by_name(truth: _Truth, row: int) -> dict[str, Array]:
    return {
        name: truth.marks[row, at : at + 1, :2]
        for at, name in enumerate(truth.names)
        if np.isfinite(truth.marks[row, at, 0])
    }


def _shape_leaps(truth: _Truth, rows: Rows) -> list[Finding]:
    """Leaps of the artists' own points, which are more telling than those of the fitted ones."""
    found = []
    for plan in truth.plans:
        shape = plan.shape
        inside = np.flatnonzero(np.isin(shape.rows, rows))
        for group in np.unique(shape.groups[inside]):
            own = inside[shape.groups[inside] == group]
            if len(own) < 3:
                continue
            points = np.stack([shape.raw[at][:, :2] for at in own])
            places = truth.faces.to_face(points, shape.rows[own])
            frames = [truth.rows[row].frame for row in shape.rows[own]]
            names = [f"point {k}" for k in range(points.shape[1])]
            found += suspicious.jumped(shape.name, names, places, shape.rows[own], frames)
    return found


def _timing(
    truth: _Truth, thumbs: Mapping[int, Thumb], rows: Rows, frames: Sequence[int], places: Array
) -> list[Finding]:
    motion = np.full(len(rows), np.nan)
    change = np.full(len(rows), np.nan)
    curves = [_curves(truth, int(row)) for row in rows]
    for at in range(1, len(rows)):
        if frames[at] != frames[at - 1] + 1:
            continue
        shared = [name for name in curves[at] if name in curves[at - 1]]
        if shared:
            steps = [np.linalg.norm(curves[at][name] - curves[at - 1][name], axis=1).mean() for name in shared]
            motion[at] = float(np.mean(steps))
        if rows[at] in thumbs and rows[at - 1] in thumbs:
            change[at] = float(np.abs(thumbs[int(rows[at])] - thumbs[int(rows[at - 1])]).mean())
    found = suspicious.held(rows, frames, motion, change)
    lag = suspicious.lag_of(motion, change)
    if lag:
        text = f"whole shot: the roto's moves come {abs(lag)} frame{'s' * (abs(lag) > 1)} {'late' if lag > 0 else 'early'}"
        found.append(Finding(int(rows[0]), "shifted", "roto", text))
    for plan in truth.plans:
        on = [truth.names.index(name) for name in plan.on_landmarks.values() if name in truth.names]
        given = [k for k in on if any(truth.names[k] in truth.rows[row].truth.landmarks for row in rows)]
        inside = np.flatnonzero(np.isin(plan.shape.rows, rows))
        if len(given) < 2 or len(inside) < 6:
            continue
        own = plan.shape.rows[inside]
        numbers = [truth.rows[row].frame for row in own]
        late = suspicious.lag_to_landmarks(
            plan.shape.curves.samples_FMC[inside, ::8], truth.marks[own][:, given, :2], numbers
        )
        if late:
            text = f"whole shot: {abs(late)} frame {'late' if late > 0 else 'early'} against its landmarks"
            found.append(Finding(int(own[0]), "shifted", plan.shape.name, text))
    return found


def _table(truth: _Truth) -> list[Residual]:
    lines = []
    for plan, distance in zip(truth.plans, truth.distances):
        shots = [truth.rows[row].shot for row in plan.shape.rows]
        lines += residuals.tabulate(plan.shape.name, distance, shots, plan.shape.raw, len(plan.placement.shares))
    return lines


def _report(
    truth: _Truth, pictures: Mapping[int, _Picture], table: Sequence[Residual], findings: Sequence[Finding], folder: Path
) -> None:
    write_text(folder / "residuals.txt", residuals.text(table) if table else "no shapes\n")
    write_json(folder / "residuals.json", [line.content() for line in table])
    listed = []
    shown: dict[int, str] = {}
    for each in findings:
        source = truth.rows[each.row]
        if each.row in pictures and each.row not in shown and len(shown) < _MOST_PICTURES:
            name = f"{_safe(source.shot)}_{source.frame:04d}.jpg"
            picture = _drawn(truth, each.row, pictures[each.row], folder.parent)
            write_picture(folder / name, picture)
            shown[each.row] = name
        content = {"shot": source.shot, "frame": source.frame, "kind": each.kind, "about": each.about, "text": each.text}
        listed.append({**content, "picture": shown.get(each.row)})
    write_json(folder / "suspicious.json", listed)


def _drawn(truth: _Truth, row: int, picture: _Picture, folder: Path) -> npt.NDArray[np.uint8]:
    """A picture twice as large with the new splines, their control points and the landmarks drawn on it (RGB)."""
    decoded = cv2.imread(str(folder / picture.image), cv2.IMREAD_COLOR)
    canvas = cv2.resize(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
    for number, (name, line) in enumerate(_curves(truth, row).items()):
        closed = next(plan.shape.closed for plan in truth.plans if plan.shape.name == name)
        hue = np.uint8([[[number * 37 % 180, 200, 255]]])
        colour = tuple(int(v) for v in cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0])
        places = np.rint(picture.where.points(line) * 2 * 8).astype(np.int32)
        cv2.polylines(canvas, [places[:, None]], closed, colour, 1, cv2.LINE_AA, 3)
        cv2.circle(canvas, [int(v) for v in places[0]], 24, colour, -1, cv2.LINE_AA, 3)
    for x, y in picture.where.points(truth.marks[row, :, :2]):
        if np.isfinite(x):
            cv2.circle(canvas, (round(x * 16), round(y * 16)), 12, (255, 255, 255), 1, cv2.LINE_AA, 3)
    return np.asarray(canvas, dtype=np.uint8)
