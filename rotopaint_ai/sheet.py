"""The character sheet: which landmarks and which shapes a character has, and how they hang together.

Standard library only; PyYAML is imported when a sheet is read or written.

A sheet file:

    format: rotopaint-sheet
    version: 1
    name: pip
    landmarks:
    - {name: eye_left_inner, mirror: eye_right_inner, weight: 1.0}
    shapes:
    - {name: seam_bridge, closed: false, role: seam, n_points: 5, on_landmarks: {0: seam_l0, 4: seam_r0},
       from_landmarks: [seam_l0, nose_tip, seam_r0], width_share: 0.02, feather_px: 1.5}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from rotopaint_ai.errors import PackError

FORMAT = "rotopaint-sheet"
VERSION = 1

Role = Literal["seam", "matte"]


@dataclass(frozen=True, slots=True)
class LandmarkSpec:
    """A named point. `mirror` names the landmark it becomes in a mirrored picture; None: it stays itself."""

    name: str
    mirror: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ShapeSpec:
    """A shape with a fixed number of control points.

    `on_landmarks` says which control points (by index) sit on which landmarks; `from_landmarks` which landmarks the
    shape is predicted from (none named: all). `width_share` is the usual full width of an open shape's matte as a
    share of the face size (longest side of the landmarks' bounding box); `taper` the share of the length over which
    each end narrows to nothing.
    """

    name: str
    closed: bool
    n_points: int
    role: Role = "matte"
    on_landmarks: Mapping[int, str] = field(default_factory=dict)
    from_landmarks: tuple[str, ...] = ()
    width_share: float | None = None
    feather_px: float = 0.0
    taper: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Landmarks and shapes of a character, in the order that models and documents keep."""

    name: str
    landmarks: tuple[LandmarkSpec, ...]
    shapes: tuple[ShapeSpec, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    @property
    def landmark_names(self) -> tuple[str, ...]:
        """Names of the landmarks in order."""
        return tuple(landmark.name for landmark in self.landmarks)

    @property
    def shape_names(self) -> tuple[str, ...]:
        """Names of the shapes in order."""
        return tuple(shape.name for shape in self.shapes)

    @property
    def n_points(self) -> int:
        """Control points of all shapes together: the P of a shape model's output."""
        return sum(shape.n_points for shape in self.shapes)

    def landmark_row(self, name: str) -> int:
        """Place of a landmark in arrays. Raises KeyError."""
        for row, landmark in enumerate(self.landmarks):
            if landmark.name == name:
                return row
        raise KeyError(name)

    def point_rows(self) -> dict[str, slice]:
        """Where each shape's control points lie in a shape model's output of P points."""
        rows: dict[str, slice] = {}
        start = 0
        for shape in self.shapes:
            rows[shape.name] = slice(start, start + shape.n_points)
            start += shape.n_points
        return rows

    def rows_of(self, shape: ShapeSpec) -> tuple[int, ...]:
        """Rows of the landmarks that a shape is predicted from (all of them where the sheet names none)."""
        names = self.landmark_names
        return tuple(names.index(name) for name in shape.from_landmarks) or tuple(range(len(names)))


def mirror_permutation(sheet: Sheet) -> tuple[int, ...]:
    """Row order of the landmarks in a mirrored picture: row `i` of the mirrored face is old row `permutation[i]`."""
    names = sheet.landmark_names
    return tuple(names.index(landmark.mirror or landmark.name) for landmark in sheet.landmarks)


def mirrored_order(sheet: Sheet) -> tuple[int, ...] | None:
    """`mirror_permutation`, or None where the sheet knows no pairs."""
    order = mirror_permutation(sheet)
    return None if order == tuple(range(len(order))) else order


def load_sheet(path: Path) -> Sheet:
    """Read a sheet file. Raises PackError, in one line, on anything that is not a sheet."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"{path}: cannot be read ({error}); wanted a character sheet (sheet.yaml)") from error
    return parse_sheet(text, where=str(path))


def parse_sheet(text: str, *, where: str = "sheet.yaml") -> Sheet:
    """Read a sheet from its YAML text; `where` names it in messages. Raises PackError."""
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise PackError(f"{where}: not valid YAML ({error}); mend or replace the sheet") from error
    try:
        return _sheet(content)
    except PackError as error:
        raise PackError(f"{where}: {error}") from error


def dump_sheet(sheet: Sheet) -> str:
    """The sheet as YAML text; `parse_sheet` gives the same sheet back."""
    import yaml

    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": sheet.name,
        "landmarks": [_landmark_content(landmark) for landmark in sheet.landmarks],
        "shapes": [_shape_content(shape) for shape in sheet.shapes],
    }
    return cast(str, yaml.safe_dump(content, sort_keys=False, width=120, default_flow_style=None))


def _landmark_content(landmark: LandmarkSpec) -> dict[str, Any]:
    mirror = {} if landmark.mirror is None else {"mirror": landmark.mirror}
    return {"name": landmark.name, **mirror, "weight": float(landmark.weight)}


def _shape_content(shape: ShapeSpec) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": shape.name,
        "closed": shape.closed,
        "role": shape.role,
        "n_points": shape.n_points,
        "on_landmarks": {int(index): name for index, name in sorted(shape.on_landmarks.items())},
        "from_landmarks": list(shape.from_landmarks),
        "feather_px": float(shape.feather_px),
    }
    if shape.width_share is not None:
        content["width_share"] = float(shape.width_share)
    if shape.taper != (0.0, 0.0):
        content["taper"] = [float(end) for end in shape.taper]
    return content


def _sheet(content: object) -> Sheet:
    fields = _mapping(content, "the sheet")
    if fields.get("format") != FORMAT or fields.get("version") != VERSION:
        got = f"format {fields.get('format')!r} version {fields.get('version')!r}"
        raise PackError(f"{got}; wanted format '{FORMAT}' version {VERSION}")
    _only(fields, {"format", "version", "name", "landmarks", "shapes"}, "the sheet")
    return Sheet(
        name=_text(fields.get("name"), "the sheet's name"),
        landmarks=tuple(_landmark(item) for item in _list(fields.get("landmarks"), "landmarks")),
        shapes=tuple(_shape(item) for item in _list(fields.get("shapes", []), "shapes")),
    )


def _landmark(content: object) -> LandmarkSpec:
    fields = _mapping(content, "a landmark")
    name = _text(fields.get("name"), "a landmark's name")
    where = f"landmark '{name}'"
    _only(fields, {"name", "mirror", "weight"}, where)
    mirror = fields.get("mirror")
    return LandmarkSpec(
        name=name,
        mirror=None if mirror is None else _text(mirror, f"{where}: mirror"),
        weight=_number(fields.get("weight", 1.0), f"{where}: weight"),
    )


_SHAPE_FIELDS = {
    *("name", "closed", "role", "n_points", "on_landmarks", "from_landmarks"),
    *("width_share", "feather_px", "taper"),
}


def _shape(content: object) -> ShapeSpec:
    fields = _mapping(content, "a shape")
    name = _text(fields.get("name"), "a shape's name")
    where = f"shape '{name}'"
    _only(fields, _SHAPE_FIELDS, where)
    closed = fields.get("closed")
    if not isinstance(closed, bool):
        raise PackError(f"{where}: closed is {closed!r}; wanted true or false")
    role = fields.get("role", "matte")
    if role not in ("seam", "matte"):
        raise PackError(f"{where}: role is {role!r}; wanted seam or matte")
    width = fields.get("width_share")
    taper = _list(fields.get("taper", [0.0, 0.0]), f"{where}: taper")
    if len(taper) != 2:
        raise PackError(f"{where}: taper has {len(taper)} numbers; wanted 2, one for each end")
    return ShapeSpec(
        name=name,
        closed=closed,
        role=cast(Role, role),
        n_points=_count(fields.get("n_points"), f"{where}: n_points"),
        on_landmarks=_on_landmarks(fields.get("on_landmarks") or {}, where),
        from_landmarks=tuple(
            _text(item, f"{where}: from_landmarks")
            for item in _list(fields.get("from_landmarks") or [], f"{where}: from_landmarks")
        ),
        width_share=None if width is None else _number(width, f"{where}: width_share"),
        feather_px=_number(fields.get("feather_px", 0.0), f"{where}: feather_px"),
        taper=(_number(taper[0], f"{where}: taper"), _number(taper[1], f"{where}: taper")),
    )


def _on_landmarks(content: object, where: str) -> dict[int, str]:
    fields = _mapping(content, f"{where}: on_landmarks")
    return {
        _count(index, f"{where}: on_landmarks"): _text(name, f"{where}: on_landmarks") for index, name in fields.items()
    }


def _mapping(content: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(content, dict):
        raise PackError(f"{where} is {type(content).__name__}; wanted named fields")
    return content


def _list(content: object, where: str) -> list[Any]:
    if not isinstance(content, list):
        raise PackError(f"{where} is {type(content).__name__}; wanted a list")
    return content


def _text(content: object, where: str) -> str:
    if not isinstance(content, str) or not content.strip():
        raise PackError(
            f"{where} is {content!r}; wanted a name (put it in quotes where YAML reads it as something else)"
        )
    return content


def _number(content: object, where: str) -> float:
    if isinstance(content, bool) or not isinstance(content, int | float) or not math.isfinite(content):
        raise PackError(f"{where} is {content!r}; wanted a number")
    return float(content)


def _count(content: object, where: str) -> int:
    if isinstance(content, bool) or not isinstance(content, int) or content < 0:
        raise PackError(f"{where} is {content!r}; wanted a whole number from 0")
    return content


def _only(fields: Mapping[Any, Any], known: set[str], where: str) -> None:
    unknown = [str(name) for name in fields if name not in known]
    if unknown:
        raise PackError(f"{where} has an unknown field '{unknown[0]}'; wanted only {', '.join(sorted(known))}")


def _check(sheet: Sheet) -> None:
    names = set(_unique(sheet.landmark_names, "landmark"))
    _unique(sheet.shape_names, "shape")
    mirrors = {landmark.name: landmark.mirror or landmark.name for landmark in sheet.landmarks}
    for landmark in sheet.landmarks:
        other = mirrors[landmark.name]
        if other not in names:
            raise PackError(f"landmark '{landmark.name}': its mirror '{other}' is not a landmark of this sheet")
        if mirrors[other] != landmark.name:
            raise PackError(
                f"landmark '{landmark.name}': its mirror '{other}' mirrors to '{mirrors[other]}'; pair them"
            )
        if not landmark.weight >= 0:
            raise PackError(f"landmark '{landmark.name}': weight is {landmark.weight}; wanted 0 or more")
    for shape in sheet.shapes:
        _check_shape(shape, names)


def _check_shape(shape: ShapeSpec, names: set[str]) -> None:
    least = 3 if shape.closed else 2
    if shape.n_points < least:
        raise PackError(f"shape '{shape.name}': {shape.n_points} control points; wanted at least {least}")
    for name in (*shape.on_landmarks.values(), *shape.from_landmarks):
        if name not in names:
            raise PackError(f"shape '{shape.name}': '{name}' is not a landmark of this sheet")
    for index in shape.on_landmarks:
        if not 0 <= index < shape.n_points:
            raise PackError(f"shape '{shape.name}': on_landmarks names point {index} of {shape.n_points}")
    if shape.width_share is not None and not shape.width_share > 0:
        raise PackError(f"shape '{shape.name}': width_share is {shape.width_share}; wanted more than 0")
    if not shape.feather_px >= 0:
        raise PackError(f"shape '{shape.name}': feather_px is {shape.feather_px}; wanted 0 or more")
    if not all(0 <= end <= 1 for end in shape.taper):
        raise PackError(f"shape '{shape.name}': taper is {shape.taper}; wanted shares from 0 to 1")


def _unique(names: Iterable[str], what: str) -> list[str]:
    seen: list[str] = []
    for name in names:
        if name in seen:
            raise PackError(f"{what} '{name}' stands twice in the sheet; wanted each name once")
        seen.append(name)
    if what == "landmark" and not seen:
        raise PackError("the sheet has no landmarks; wanted at least one")
    return seen
