"""Everything suspicious in all frames: the single checks brought together, and the report with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.training.data.dataset import write_picture
from rotopaint_ai.training.mining import oddness, residuals, suspicious
from rotopaint_ai.training.mining.order import HARMLESS
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.register import Rows
from rotopaint_ai.training.mining.residuals import Residual
from rotopaint_ai.training.mining.suspicious import Finding
from rotopaint_ai.training.mining.truth import Truth
from rotopaint_ai.training.mining.write import Picture, Thumb, safe

_MOST_PICTURES = 60  # of suspicious frames
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_MOST_LINES = 6  # of writing on one of them


def findings(truth: Truth, thumbs: Mapping[int, Thumb], tolerance_px: float) -> list[Finding]:
    """What somebody should look at, frame by frame. `thumbs`: the plate under the face, the same place through a
    shot."""
    faces, everywhere = truth.faces, np.arange(len(truth.rows))
    places = faces.to_face(truth.marks[..., :2], everywhere)
    given = truth.given()
    names = [truth.names[at] for at in given]
    found = suspicious.swapped(truth.plans, faces)
    found += suspicious.swapped_landmarks(names, places[:, given], {each.row for each in found if each.about == "face"})
    swapped = {each.row for each in found}
    for plan, distance in zip(truth.plans, truth.distances):
        found += suspicious.misfits(plan, distance, tolerance_px) + suspicious.twisted(plan, plan.shape.twists)
    face = oddness.learn(truth, swapped)
    found += oddness.slips(face, truth, swapped) if face else []
    for shot in np.unique(truth.shots):
        rows = np.flatnonzero(truth.shots == shot)
        frames = [truth.rows[row].frame for row in rows]
        if given:
            found += suspicious.jumped(
                "landmarks", names, _in_faces(truth, truth.marks[rows][:, given, :2], rows), rows, frames
            )
        found += _shape_leaps(truth, rows)
        wrong = {each.row for each in found}
        late = oddness.late_shapes(face, truth, rows, wrong) if face else []
        if face and not any(each.about == oddness.ROTO for each in late):
            late += oddness.roto_of_another_frame(face, truth, rows, swapped)
        found += late
        found += _timing(truth, thumbs, rows, frames, wrong)
        for row in rows:
            named = {**truth.curves(int(row)), **_marks_by_name(truth, int(row))}
            plate = truth.rows[row].plate
            found += suspicious.outside(int(row), named, plate.width, plate.height)
    return sorted(set(found), key=lambda each: (each.row, suspicious.KINDS.index(each.kind), each.about))


def _marks_by_name(truth: Truth, row: int) -> dict[str, Array]:
    return {
        name: truth.marks[row, at : at + 1, :2]
        for at, name in enumerate(truth.names)
        if np.isfinite(truth.marks[row, at, 0])
    }


def _shape_leaps(truth: Truth, rows: Rows) -> list[Finding]:
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
            places = _in_faces(truth, points, shape.rows[own])
            frames = [truth.rows[row].frame for row in shape.rows[own]]
            names = [f"point {k}" for k in range(points.shape[1])]
            found += suspicious.jumped(shape.name, names, places, shape.rows[own], frames)
    return found


def _timing(
    truth: Truth, thumbs: Mapping[int, Thumb], rows: Rows, frames: Sequence[int], known: Set[int]
) -> list[Finding]:
    """Roto that is held or shifted against its plate; frames beside one that is known to be wrong say nothing of
    that."""
    motion = np.full(len(rows), np.nan)
    change = np.full(len(rows), np.nan)
    curves = [truth.curves(int(row)) for row in rows]
    for at in range(1, len(rows)):
        if frames[at] != frames[at - 1] + 1:
            continue
        shared = [name for name in curves[at] if name in curves[at - 1]]
        if shared:
            steps = [np.linalg.norm(curves[at][name] - curves[at - 1][name], axis=1).mean() for name in shared]
            motion[at] = float(np.mean(steps))
        if rows[at] in thumbs and rows[at - 1] in thumbs:
            change[at] = float(np.abs(thumbs[int(rows[at])] - thumbs[int(rows[at - 1])]).mean())
    found = _late(truth, rows)
    lag = suspicious.lag_of(motion, change)
    if lag:
        frames_text = "1 frame" if abs(lag) == 1 else f"{abs(lag)} frames"
        text = f"whole shot: the roto's moves come {frames_text} {'late' if lag > 0 else 'early'}"
        found.append(Finding(int(rows[0]), "shifted", "roto", text))
    if found:
        return found
    held = suspicious.held(rows, frames, motion, change)
    return [each for each in held if not {each.row, each.row - 1} & known]


def _late(truth: Truth, rows: Rows) -> list[Finding]:
    """Shapes of a shot that come a frame late or early against the landmarks that lie on them."""
    found = []
    for plan in truth.plans:
        on = [truth.names.index(name) for name in plan.on_landmarks.values() if name in truth.names]
        given = [k for k in on if any(truth.names[k] in truth.rows[row].truth.landmarks for row in rows)]
        inside = np.flatnonzero(np.isin(plan.shape.rows, rows))
        if len(given) < 2:
            continue
        own = plan.shape.rows[inside]
        numbers = [truth.rows[row].frame for row in own]
        curves = plan.shape.curves.samples_FMC[inside, ::8]
        late = suspicious.lag_to_landmarks(curves, truth.marks[own][:, given, :2], numbers)
        if late:
            text = f"whole shot: {abs(late)} frame {'late' if late > 0 else 'early'} against its landmarks"
            found.append(Finding(int(own[0]), "shifted", plan.shape.name, text))
    return found


def _in_faces(truth: Truth, points: Array, rows: Rows) -> Array:
    """Plate points in units of the face, the plate standing still: a leap must not hide in where the face was found."""
    return np.asarray(points / float(np.median(truth.faces.side_px[rows])))


def table(truth: Truth) -> list[Residual]:
    """Residuals of every shape in every shot."""
    lines = []
    for plan, distance in zip(truth.plans, truth.distances):
        shots = [truth.rows[row].shot for row in plan.shape.rows]
        lines += residuals.tabulate(plan.shape.name, distance, shots, plan.shape.raw, len(plan.placement.shares))
    return lines


def report(
    truth: Truth,
    pictures: Mapping[int, Picture],
    table: Sequence[Residual],
    findings: Sequence[Finding],
    folder: Path,
) -> None:
    """Write the residual table, the list of suspicious frames and a picture of each (the first 60) to `folder`.

    `suspicious.txt` has a line for each frame as `--exclude @FILE` takes it, the reason behind a `#`: strike out what
    is all right and mine again.
    """
    write_text(folder / "residuals.txt", residuals.text(table) if table else "no shapes\n")
    write_json(folder / "residuals.json", [line.content() for line in table])
    listed = []
    shown: dict[int, str] = {}
    for each in findings:
        source = truth.rows[each.row]
        if each.row in pictures and each.row not in shown and len(shown) < _MOST_PICTURES:
            name = f"{safe(source.shot)}_{source.frame:04d}.jpg"
            own = [other for other in findings if other.row == each.row]
            picture = _drawn(truth, each.row, pictures[each.row], folder.parent, own)
            write_picture(folder / name, picture)
            shown[each.row] = name
        content = {
            "shot": source.shot,
            "frame": source.frame,
            "kind": each.kind,
            "about": each.about,
            "text": each.text,
        }
        listed.append({**content, "picture": shown.get(each.row)})
    write_json(folder / "suspicious.json", listed)
    write_text(
        folder / "suspicious.txt", "".join(f"{_excluding(truth, findings, row)}\n" for row in _rows_of(findings))
    )


def _rows_of(findings: Sequence[Finding]) -> list[int]:
    """Rows of what does harm; what was put right or is true all the same need not be excluded."""
    return sorted({each.row for each in findings if each.kind not in HARMLESS})


def _excluding(truth: Truth, findings: Sequence[Finding], row: int) -> str:
    own = [each for each in findings if each.row == row and each.kind not in HARMLESS]
    source, whole = truth.rows[row], any("whole shot" in each.text for each in own)
    words = "; ".join(f"{each.kind}: {each.about}: {each.text}" for each in own[:3]).replace(",", "")
    return f"{source.shot if whole else f'{source.shot}:{source.frame}'}  # {words}"


def _drawn(truth: Truth, row: int, picture: Picture, folder: Path, found: Sequence[Finding]) -> npt.NDArray[np.uint8]:
    """A picture twice as large with the new splines, where they start and the landmarks drawn on it (RGB); what is
    suspicious is drawn thicker and written at the top."""
    decoded = cv2.imread(str(folder / picture.image), cv2.IMREAD_COLOR)
    if decoded is None:
        raise TrainingError(f"{folder / picture.image}: written a moment ago and cannot be read; is the disk full?")
    canvas = cv2.resize(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
    for number, (name, line) in enumerate(truth.curves(row).items()):
        closed = next(plan.shape.closed for plan in truth.plans if plan.shape.name == name)
        hue = np.array([[[number * 37 % 180, 200, 255]]], dtype=np.uint8)
        colour = tuple(int(v) for v in cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0])
        places = np.rint(picture.where.points(line) * 2 * 8).astype(np.int32)
        thick = 3 if any(_is_about(each, name) for each in found) else 1
        cv2.polylines(canvas, [places[:, None]], closed, colour, thick, cv2.LINE_AA, 3)
        cv2.circle(canvas, [int(v) for v in places[0]], 24, colour, -1, cv2.LINE_AA, 3)
    for name, (x, y) in zip(truth.names, picture.where.points(truth.marks[row, :, :2])):
        if np.isfinite(x):
            told = any(_is_about(each, name) for each in found)
            size, colour, thick = (80, (255, 60, 60), 2) if told else (12, (255, 255, 255), 1)
            cv2.circle(canvas, (round(x * 16), round(y * 16)), size, colour, thick, cv2.LINE_AA, 3)
    return _captioned(np.asarray(canvas, dtype=np.uint8), found)


def _is_about(finding: Finding, name: str) -> bool:
    return name in finding.about.removesuffix(" ...").split(", ")


def _captioned(canvas: npt.NDArray[np.uint8], found: Sequence[Finding]) -> npt.NDArray[np.uint8]:
    """What is suspicious, a line each, on a darkened band so that it reads on any plate."""
    said = found[:_MOST_LINES]
    band = canvas[: 10 + 18 * len(said)]
    band[:] = band // 3
    for line, each in enumerate(said):
        text = f"{each.kind}: {each.about}: {each.text}".encode("ascii", "replace").decode()
        cv2.putText(canvas, text, (8, 20 + 18 * line), _FONT, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return canvas
