"""The character sheet: the landmarks and shapes of a character, and how they relate.

PyYAML and msgspec are imported only when a sheet is read or written.

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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from rotopaint_ai.errors import PackError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.value_checks import check, check_format
from rotopaint_ai.yaml_text import yaml_errors, yaml_loader

FORMAT = "rotopaint-sheet"
VERSION = 1
MOST_LETTERS, MOST_POINTS = 1 << 20, 10_000  # limits of a sheet's text and of a shape

Role = Literal["seam", "matte"]


@dataclass(frozen=True, slots=True)
class LandmarkSpec:
    """A named point. `mirror` names the landmark that it becomes in a mirrored picture; None: the same landmark."""

    name: str
    mirror: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ShapeSpec:
    """A shape with a fixed number of control points.

    `on_landmarks` maps control points (by index) to the landmarks on which they lie. `from_landmarks` names the
    landmarks from which the shape is predicted (empty: all). `width_share` is the usual full width of an open shape's
    matte as a share of the face size (longest side of the landmarks' bounding box). `taper` is the share of the length
    over which each end narrows to zero.
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
    """Landmarks and shapes of a character, in the order that models and documents use."""

    name: str
    landmarks: tuple[LandmarkSpec, ...]
    shapes: tuple[ShapeSpec, ...] = ()

    def __post_init__(self) -> None:
        _check_sheet(self)

    @property
    def landmark_names(self) -> tuple[str, ...]:
        """Names of the landmarks in order."""
        return tuple(landmark.name for landmark in self.landmarks)

    @property
    def shape_names(self) -> tuple[str, ...]:
        """Names of the shapes in order."""
        return tuple(shape.name for shape in self.shapes)

    @property
    def seam_names(self) -> frozenset[str]:
        """Names of the shapes that are seams."""
        return frozenset(shape.name for shape in self.shapes if shape.role == "seam")

    @property
    def n_points(self) -> int:
        """The number of control points of all shapes: the P of a shape model's output."""
        return sum(shape.n_points for shape in self.shapes)

    def landmark_row(self, name: str) -> int:
        """Row of a landmark in arrays. Raises KeyError."""
        for row, landmark in enumerate(self.landmarks):
            if landmark.name == name:
                return row
        raise KeyError(name)

    def point_rows(self) -> dict[str, slice]:
        """The rows of each shape's control points in a shape model's output of P points."""
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
    """The permutation of landmark rows for a mirrored picture: its row `i` is row `permutation[i]` of the original."""
    names = sheet.landmark_names
    return tuple(names.index(landmark.mirror or landmark.name) for landmark in sheet.landmarks)


def mirrored_order(sheet: Sheet) -> tuple[int, ...] | None:
    """`mirror_permutation`, or None where the sheet has no mirror pairs."""
    order = mirror_permutation(sheet)
    return None if order == tuple(range(len(order))) else order


def load_sheet(path: Path) -> Sheet:
    """Read a sheet file. Raises PackError for anything that is not a sheet."""
    try:
        text = file_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"{path}: cannot be read ({error}); wanted a character sheet (sheet.yaml)") from error
    return parse_sheet(text, where=str(path))


def parse_sheet(text: str, *, where: str = "sheet.yaml") -> Sheet:
    """Read a sheet from its YAML text; `where` names it in messages. Raises PackError."""
    import yaml

    if len(text) > MOST_LETTERS:
        raise PackError(f"{where}: has {len(text):,} letters; wanted at most {MOST_LETTERS:,} for a character sheet")
    try:
        content = yaml.load(text, yaml_loader(aliases=False))
    except yaml_errors() as error:
        raise PackError(f"{where}: not valid YAML ({error}); correct or replace the sheet") from error
    try:
        return _sheet(content)
    except PackError as error:
        raise PackError(f"{where}: {error}") from error


def dump_sheet(sheet: Sheet) -> str:
    """The sheet as YAML text; `parse_sheet` reads it back to the same sheet."""
    import yaml

    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": sheet.name,
        "landmarks": [_landmark_content(landmark) for landmark in sheet.landmarks],
        "shapes": [_checked_shape(shape) for shape in sheet.shapes],
    }
    return cast(str, yaml.safe_dump(content, sort_keys=False, width=120, default_flow_style=None))


def _landmark_content(landmark: LandmarkSpec) -> dict[str, Any]:
    mirror = {} if landmark.mirror is None else {"mirror": landmark.mirror}
    return {"name": landmark.name, **mirror, "weight": float(landmark.weight)}


def _checked_shape(shape: ShapeSpec) -> dict[str, Any]:
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
    return check(_without_blanks(check_format(content, FORMAT, VERSION, error=PackError)), Sheet, error=PackError)


def _without_blanks(fields: dict[str, Any]) -> dict[str, Any]:
    """A sheet's fields without empty fields of landmarks and shapes, which people may leave blank."""
    for items in (fields.get("landmarks"), fields.get("shapes")):
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                for name in [name for name, value in item.items() if value is None and name in _MAY_BE_BLANK]:
                    del item[name]
    return fields


_MAY_BE_BLANK = ("mirror", "on_landmarks", "from_landmarks", "width_share")


def _check_sheet(sheet: Sheet) -> None:
    if not sheet.name.strip():
        raise PackError("the sheet's name is empty; wanted a name")
    names = _unique_names(sheet.landmark_names, "landmark")
    _unique_names(sheet.shape_names, "shape")
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
    if not least <= shape.n_points <= MOST_POINTS:
        wanted = f"{least} to {MOST_POINTS:,}"
        raise PackError(f"shape '{shape.name}': {shape.n_points} control points; wanted {wanted}")
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


def _unique_names(names: Iterable[str], what: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PackError(f"{what} '{name}' occurs twice in the sheet; wanted each name once")
        if not name.strip():
            raise PackError(f"a {what}'s name is {name!r}; wanted a name")
        seen.add(name)
    if what == "landmark" and not seen:
        raise PackError("the sheet has no landmarks; wanted at least one")
    return seen
