"""The jobs file of a show: YAML, checked at the door.

    out: renders                      # one folder per shot under it
    defaults: {model: pip, export: [nuke], chunk: 50}
    shots:
      - name: sq010_sh020
        plates: plates/sq010_sh020/plate.####.exr
        crop: 342,142,280,297         # or a list of FRAME:X,Y,W,H, or auto
        frames: 1001-1120
        project: projects/sh020.rotopaint   # what artists did stands; its crop boxes where none are given here

Paths are relative to the file's own folder. Every setting of a shot may stand among the defaults.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import ProjectError, UsageError
from rotopaint_ai.jobs import RunJob

CHUNK = 50
RETRIES = 2
_SHOW = ("out", "defaults", "shots")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
_WORDS = {"crop": "crops", "export": "exports", "reduce_keys": "key_tolerance_px"}  # a shot's word -> a job's field
_SETTINGS = (
    "plates",
    "crop",
    "frames",
    "model",
    "export",
    "clean",
    "method",
    "device",
    "threads",
    "colourspace",
    "reduce_keys",
    "project",
    "chunk",
    "retries",
)


@dataclass(frozen=True, slots=True)
class Shot:
    """One plate of a show: its job, how many frames a task paints, and how often a failed task is tried again."""

    name: str
    job: RunJob
    chunk: int
    retries: int


@dataclass(frozen=True, slots=True)
class Show:
    """A jobs file: where everything goes, and the shots in their order."""

    path: Path
    out: Path
    shots: tuple[Shot, ...] = field(default_factory=tuple)

    def shot(self, name: str) -> Shot:
        """A shot by its name. Raises UsageError for one that is not in the file."""
        for shot in self.shots:
            if shot.name == name:
                return shot
        near = difflib.get_close_matches(name, [shot.name for shot in self.shots], 1)
        raise UsageError(f"{self.path.name}: no shot '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))


def read_show(path: Path) -> Show:
    """Read a jobs file. Raises UsageError in one line that names the shot and the setting."""
    content = _yaml(path)
    _known(content, _SHOW, path.name)
    defaults = _mapping(content.get("defaults") or {}, f"{path.name}: defaults")
    _known(defaults, _SETTINGS, f"{path.name}: defaults")
    if not isinstance(content.get("out"), str):
        raise UsageError(f"{path.name}: 'out' is missing; wanted the folder that the shots are written to")
    rows = content.get("shots")
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{path.name}: 'shots' is empty; wanted a list with name, plates and crop of each shot")
    out = path.parent / content["out"]
    shots = tuple(_shot(row, defaults, path, out) for row in rows)
    _once(shots, path)
    return Show(path, out, shots)


def _yaml(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path.name}: is not YAML ({' '.join(str(error).split())[:160]}); correct it") from error
    return _mapping(content, path.name)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{where}: wanted names with values, such as 'out: renders'")
    return value


def _known(content: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in content:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names)}"
            raise UsageError(f"{where}: '{name}' is no setting; {hint}")


def _shot(row: Any, defaults: Mapping[str, Any], path: Path, out: Path) -> Shot:
    given = _mapping(row, f"{path.name}: a shot")
    name = given.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError(
            f"{path.name}: shot name {name!r}: wanted letters, digits, '.', '_' and '-', it names a folder"
        )
    where = f"{path.name}: {name}"
    _known(given, ("name", *_SETTINGS), where)
    settings = {**defaults, **{key: value for key, value in given.items() if key != "name"}}
    chunk, retries = (
        _count(settings.pop(key, value), key, where) for key, value in (("chunk", CHUNK), ("retries", RETRIES))
    )
    if chunk == 0:
        raise UsageError(f"{where}: chunk 0: wanted how many frames one task paints")
    return Shot(name, _job(settings, where, path.parent, out / name), chunk, retries)


def _count(value: Any, name: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{where}: {name} {value!r}: wanted a whole number from 0")
    return value


def _job(settings: Mapping[str, Any], where: str, folder: Path, out: Path) -> RunJob:
    fields = {_WORDS.get(name, name): value for name, value in settings.items()}
    for name in ("crops", "exports"):
        if isinstance(fields.get(name), str):
            fields[name] = [fields[name]]
    if isinstance(fields.get("frames"), int):
        fields["frames"] = str(fields["frames"])
    if isinstance(fields.get("plates"), str):
        fields["plates"] = str(folder / fields["plates"])
    if isinstance(fields.get("project"), str):
        fields["project"] = str(folder / fields["project"])
    model = fields.get("model")
    if isinstance(model, str) and (folder / model / "card.json").is_file():
        fields["model"] = str(folder / model)
    try:
        if isinstance(fields.get("project"), str) and "crops" not in fields:
            fields["crops"] = _crops_of(Path(fields["project"]))
        return RunJob.from_json({**fields, "out": str(out), "resume": True})
    except (UsageError, ProjectError) as error:
        raise UsageError(f"{where}: {error}") from error


def _crops_of(project: Path) -> list[str]:
    """The crop boxes that a project has. Raises ProjectError, UsageError."""
    from rotopaint_ai.pipeline.artist import crop_words

    return list(crop_words(project))


def _once(shots: tuple[Shot, ...], path: Path) -> None:
    seen: set[str] = set()
    owners: dict[str, str] = {}  # the file that a project is -> the shot that it is of
    for shot in shots:
        if shot.name.lower() in seen:
            raise UsageError(f"{path.name}: two shots are called '{shot.name}'; each wants a folder of its own")
        seen.add(shot.name.lower())
        project = shot.job.project
        if project is not None and (other := owners.setdefault(os.path.realpath(project), shot.name)) != shot.name:
            raise UsageError(
                f"{path.name}: '{other}' and '{shot.name}' share the project {Path(project).name}; give each its own"
            )
