"""The jobs file of a show: YAML or JSON, checked at the door.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rotopaint_ai.batch.text import read_text
from rotopaint_ai.errors import ProjectError, UsageError
from rotopaint_ai.jobs import RunJob

CHUNK = 50
RETRIES = 2
_SHOW = ("out", "defaults", "shots")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TAKEN = ("index.html", "show.json")  # what lies beside the shots' folders
_PLACES = ("plates", "model", "project")  # settings that may be paths
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
    "priority",
    "resources",
)


@dataclass(frozen=True, slots=True)
class JobShot:
    """One plate of a show: its job, how many frames a task paints, and how often a failed task is tried again.

    `places` are the job's paths as the file has them: every machine reads those alike, wherever it sees the file.
    `priority` and `resources` are a cluster's: higher goes first; what a worker must offer, such as GPU.
    """

    name: str
    job: RunJob
    chunk: int
    retries: int
    places: Mapping[str, str] = field(default_factory=dict, hash=False)
    priority: int = 0
    resources: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Show:
    """A jobs file: where everything goes, and the shots in their order.

    `refused`: shots that cannot be begun as they stand, with the reason; they are not among `shots`, but in `names`.
    """

    path: Path
    out: Path
    shots: tuple[JobShot, ...] = field(default_factory=tuple)
    names: tuple[str, ...] = field(default_factory=tuple)
    refused: Mapping[str, str] = field(default_factory=dict)

    def shot(self, name: str) -> JobShot:
        """A shot by its name. Raises UsageError for one that is not in the file, or is refused."""
        for shot in self.shots:
            if shot.name == name:
                return shot
        if name in self.refused:
            raise UsageError(f"{self.path.name}: {name}: {self.refused[name]}")
        near = difflib.get_close_matches(name, self.names, 1)
        raise UsageError(f"{self.path.name}: no shot '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))


def read_show(path: Path) -> Show:
    """Read a jobs file. Raises UsageError in one line that names the shot and the setting.

    A shot whose project cannot be read, or that has no crop box anywhere, is refused alone: the others can go on.
    """
    content = _named_values(read_text(path), path.name)
    _refuse_unknown(content, _SHOW, path.name)
    defaults = _named_values(content.get("defaults") or {}, f"{path.name}: defaults")
    _refuse_unknown(defaults, _SETTINGS, f"{path.name}: defaults")
    out = path.parent / _out(content, path)
    shots, refused = [], {}
    rows = _shot_rows(content, path)
    for row in rows:
        try:
            shots.append(_job_shot(row, defaults, path, out))
        except _ShotRefusedError as refusal:
            refused[refusal.name] = str(refusal)
    names = tuple(str(row["name"]) for row in rows)
    _refuse_shared(names, shots, path)
    return Show(path, out, tuple(shots), names, refused)


class _ShotRefusedError(Exception):
    """Something that is wrong with one shot, and with nothing else in the file."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def _out(content: Mapping[str, Any], path: Path) -> str:
    out = content.get("out")
    if not isinstance(out, str) or not out.strip():
        raise UsageError(f"{path.name}: 'out' is missing; wanted the folder that the shots are written to")
    return out


def _shot_rows(content: Mapping[str, Any], path: Path) -> list[Any]:
    rows = content.get("shots")
    if not isinstance(rows, list) or not rows:
        got = "is empty" if not rows else "is no list"
        raise UsageError(f"{path.name}: 'shots' {got}; wanted a list with name, plates and crop of each shot")
    return rows


def _named_values(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{where}: wanted names with values, such as 'out: renders'")
    return value


def _refuse_unknown(content: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in content:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names)}"
            raise UsageError(f"{where}: '{name}' is no setting; {hint}")


def _job_shot(row: Any, defaults: Mapping[str, Any], path: Path, out: Path) -> JobShot:
    given = _named_values(row, f"{path.name}: a shot")
    name = _shot_name(given.get("name"), path)
    where = f"{path.name}: {name}"
    _refuse_unknown(given, ("name", *_SETTINGS), where)
    settings = {**defaults, **{key: value for key, value in given.items() if key != "name"}}
    chunk, retries = (
        _whole_number(settings.pop(key, value), key, where) for key, value in (("chunk", CHUNK), ("retries", RETRIES))
    )
    if chunk == 0:
        raise UsageError(f"{where}: chunk 0: wanted how many frames one task paints")
    priority, resources = (
        _priority(settings.pop("priority", 0), where),
        _resources(settings.pop("resources", {}), where),
    )
    job = _run_job(name, settings, where, path.parent, out / name)
    places = {word: settings[word] for word in _PLACES if isinstance(settings.get(word), str)}
    return JobShot(name, job, chunk, retries, places, priority, resources)


def _priority(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{where}: priority {value!r}: wanted a whole number; higher goes first")
    return value


def _resources(value: Any, where: str) -> Mapping[str, float]:
    rows = value or {}
    if not isinstance(rows, dict) or not all(isinstance(n, str) and _is_number(v) and v > 0 for n, v in rows.items()):
        raise UsageError(f"{where}: resources {value!r}: wanted names with amounts that a worker offers, as {{GPU: 1}}")
    return {name: float(amount) for name, amount in rows.items()}


def _shot_name(name: Any, path: Path) -> str:
    """A shot's name; a whole number is one that nobody put in quotes."""
    text = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        quotes = "" if isinstance(name, str | None) else ", in quotes"
        raise UsageError(
            f"{path.name}: shot name {name!r}: wanted letters, digits, '.', '_' and '-'{quotes}, it names a folder"
        )
    if text.lower() in _TAKEN:
        raise UsageError(f"{path.name}: shot name '{text}': so is a file of the show called; wanted another name")
    return text


def _whole_number(value: Any, name: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{where}: {name} {value!r}: wanted a whole number from 0")
    return value


def _run_job(name: str, settings: Mapping[str, Any], where: str, folder: Path, out: Path) -> RunJob:
    fields = {_WORDS.get(name, name): value for name, value in settings.items()}
    for word in ("crop", "export"):
        if word in settings:
            fields[_WORDS[word]] = _text_list(settings[word], word, where)
    if isinstance(fields.get("frames"), int):
        fields["frames"] = str(fields["frames"])
    if isinstance(fields.get("plates"), str):
        fields["plates"] = str(folder / fields["plates"])
    if isinstance(fields.get("project"), str):
        fields["project"] = str(folder / fields["project"])
    model = fields.get("model")
    if isinstance(model, str) and (folder / model / "card.json").is_file():
        fields["model"] = str(folder / model)
    if not fields.get("crops"):
        fields["crops"] = _crops_of(name, fields.get("project"))
    try:
        return RunJob.from_json({**fields, "out": str(out), "resume": True})
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _text_list(value: Any, word: str, where: str) -> list[str]:
    """A text or a list of texts; a crop may also be the four numbers themselves. Null is none."""
    if word == "crop" and isinstance(value, list) and len(value) == 4 and all(map(_is_number, value)):
        value = ",".join(f"{number:.15g}" for number in value)
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        wanted = "X,Y,W,H, a list of FRAME:X,Y,W,H, or auto" if word == "crop" else "names of formats, as a list"
        raise UsageError(f"{where}: {word} {value!r}: wanted {wanted}")
    return texts


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _crops_of(name: str, project: object) -> list[str]:
    """The crop boxes that a shot's project has. Raises _ShotRefusedError."""
    from rotopaint_ai.pipeline.overrides import read_inputs

    advice = "add 'crop: X,Y,W,H' around the face to the shot, or 'crop: auto' to have it looked for"
    if not isinstance(project, str):
        raise _ShotRefusedError(name, f"has no crop box; {advice}")
    try:
        crops = read_inputs(Path(project)).crops
    except ProjectError as error:
        raise _ShotRefusedError(name, str(error)) from error
    if not crops:
        raise _ShotRefusedError(name, f"{Path(project).name} has no crop box yet; draw one in the panel, or {advice}")
    return list(crops)


def _refuse_shared(names: Sequence[str], shots: Sequence[JobShot], path: Path) -> None:
    seen: set[str] = set()
    owners: dict[str, str] = {}  # the file that a project is -> the shot that it is of
    for name in names:
        if name.lower() in seen:
            raise UsageError(f"{path.name}: two shots are called '{name}'; each wants a folder of its own")
        seen.add(name.lower())
    for shot in shots:
        project = shot.job.project
        if project is not None and (other := owners.setdefault(os.path.realpath(project), shot.name)) != shot.name:
            raise UsageError(
                f"{path.name}: '{other}' and '{shot.name}' share the project {Path(project).name}; give each its own"
            )
