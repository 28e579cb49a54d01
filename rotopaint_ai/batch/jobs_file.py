"""The jobs file of a show: YAML or JSON, checked when it is read.

    out: renders                      # one folder per shot under it
    defaults: {model: pip, export: [nuke], chunk: 50}
    shots:
      - name: sq010_sh020
        plates: plates/sq010_sh020/plate.####.exr
        crop: 342,142,280,297         # or a list of FRAME:X,Y,W,H, or auto
        frames: 1001-1120
        project: projects/sh020.rotopaint   # artists' edits are kept; its crop boxes are used where none are given here

Paths are relative to the file's own folder. Every setting of a shot may be given in the defaults.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rotopaint_ai.batch.text import read_jobs_text
from rotopaint_ai.errors import ProjectError, UsageError
from rotopaint_ai.jobs import RunJob
from rotopaint_ai.value_checks import check

if TYPE_CHECKING:
    from rotopaint_ai.pipeline.overrides import ProjectInputs

Checked = TypeVar("Checked")
CHUNK = 50
RETRIES = 2
_FILE_WANTED = "the output folder of the shots, and a list with name, plates and crop of each shot"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TAKEN = ("index.html", "show.json")  # files beside the shots' folders
_PLACES = ("plates", "model", "project")  # settings that may be paths
_WORDS = {"crop": "crops", "export": "exports", "reduce_keys": "key_tolerance_px"}  # a shot's word -> a job's field


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a shot or of the defaults. A setting that is absent or null has the job's own default."""

    plates: str | None = None
    crop: str | Sequence[str | float] | None = None
    frames: str | int | None = None
    model: str | None = None
    export: str | Sequence[str] | None = None
    clean: bool | None = None
    method: str | None = None
    device: str | None = None
    threads: int | None = None
    colourspace: str | None = None
    reduce_keys: float | None = None
    project: str | None = None
    face: str | None = None
    chunk: int | None = None
    retries: int | None = None
    priority: int | None = None
    resources: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class _File:
    """The file's own fields; its shots are checked one by one, so that a refusal names the shot."""

    out: str
    shots: Sequence[Mapping[str, object]]
    defaults: _Settings | None = None


@dataclass(frozen=True, slots=True)
class JobShot:
    """One plate of a show: its job, how many frames a task paints, and how often a failed task is tried again.

    `places` are the job's paths as written in the file, which are the same on every machine. `priority` and
    `resources` are for a cluster: higher priority starts first; resources, such as GPU, must be offered by a worker.
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
    """A jobs file: the output folder, and the shots in their order.

    `refused`: shots that cannot begin, with the reason; they are in `names`, but not in `shots`.
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
    file = _check_part(read_jobs_text(path), _File, path.name)
    if not (file.out.strip() and file.shots):
        raise UsageError(f"{path.name}: '{'shots' if file.out.strip() else 'out'}' is empty; wanted {_FILE_WANTED}")
    out = path.parent / file.out
    shots, refused, names = [], {}, []
    for row in file.shots:
        names.append(_shot_name(row.get("name"), path))
        try:
            shots.append(_job_shot(names[-1], row, file.defaults, path, out))
        except _ShotRefusedError as refusal:
            refused[refusal.name] = str(refusal)
    _refuse_shared(names, shots, path)
    return Show(path, out, tuple(shots), tuple(names), refused)


def _check_part(content: object, kind: type[Checked], where: str) -> Checked:
    try:
        return check(content, kind, error=UsageError)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


class _ShotRefusedError(Exception):
    """An error in one shot that does not affect the rest of the file."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def _job_shot(name: str, row: Mapping[str, object], defaults: _Settings | None, path: Path, out: Path) -> JobShot:
    where = f"{path.name}: {name}"
    given = _check_part({word: value for word, value in row.items() if word != "name"}, _Settings, where)
    settings = {**_given_settings(defaults or _Settings()), **_given_settings(given)}
    places = {word: settings[word] for word in _PLACES if word in settings}
    chunk, retries, priority, resources = (
        settings.pop(word, value)
        for word, value in (("chunk", CHUNK), ("retries", RETRIES), ("priority", 0), ("resources", {}))
    )
    if chunk < 1 or retries < 0:
        raise UsageError(
            f"{where}: chunk {chunk}, retries {retries}: wanted at least 1 frame per task, and 0 or more retries"
        )
    if any(amount <= 0 for amount in resources.values()):
        raise UsageError(f"{where}: resources {resources}: wanted amounts that a worker offers, such as {{GPU: 1}}")
    job = _run_job(name, settings, where, path.parent, out / name)
    return JobShot(name, job, chunk, retries, places, priority, resources)


def _given_settings(settings: _Settings) -> dict[str, Any]:
    """The settings that are not left to the job's own default."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {name: value for name, value in values.items() if value is not None}


def _shot_name(name: Any, path: Path) -> str:
    """A shot's name; an integer is a name that was written without quotes."""
    text = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        quotes = "" if isinstance(name, str | None) else ", in quotes"
        raise UsageError(
            f"{path.name}: shot name {name!r}: wanted letters, digits, '.', '_' and '-'{quotes}, as it names a folder"
        )
    if text.lower() in _TAKEN:
        raise UsageError(f"{path.name}: shot name '{text}': a file of the show has this name; wanted another name")
    return text


def _run_job(name: str, settings: Mapping[str, Any], where: str, folder: Path, out: Path) -> RunJob:
    job = {_WORDS.get(word, word): value for word, value in settings.items()}
    job.update({_WORDS[word]: _text_list(settings[word], where) for word in ("crop", "export") if word in settings})
    if "frames" in job:
        job["frames"] = str(job["frames"])
    job.update({word: str(folder / job[word]) for word in ("plates", "project") if word in job})
    if "model" in job and (folder / job["model"] / "card.json").is_file():
        job["model"] = str(folder / job["model"])
    if not job.get("crops"):
        job["crops"] = _crops_of(name, job.get("project"), job.get("face"))
    if not job.get("model") and isinstance(job.get("project"), str) and isinstance(job.get("face"), str):
        job["model"] = _inputs_of(name, job["project"], job["face"]).pack
    return _check_part({**job, "out": str(out), "resume": True}, RunJob, where)


def _text_list(value: Any, where: str) -> list[str]:
    """A text or a list of texts; a crop may also be the four numbers themselves."""
    if isinstance(value, str):
        return [value]
    numbers = [item for item in value if not isinstance(item, str)]
    if len(numbers) not in (0, 4) or len(numbers) != len(numbers and value):
        raise UsageError(f"{where}: crop {value!r}: wanted X,Y,W,H, a list of FRAME:X,Y,W,H, or auto")
    return [",".join(f"{number:.15g}" for number in numbers)] if numbers else list(value)


def _crops_of(name: str, project: object, face: str | None) -> list[str]:
    """The crop boxes that a shot's project has, of its face where one is named. Raises _ShotRefusedError."""
    advice = "add 'crop: X,Y,W,H' around the face to the shot, or 'crop: auto' to search for the face"
    if not isinstance(project, str):
        raise _ShotRefusedError(name, f"has no crop box; {advice}")
    crops = _inputs_of(name, project, face).crops
    if not crops:
        raise _ShotRefusedError(name, f"{Path(project).name} has no crop box yet; draw one in the panel, or {advice}")
    return list(crops)


def _inputs_of(name: str, project: str, face: str | None) -> ProjectInputs:
    """The inputs of a shot from its project. Raises _ShotRefusedError."""
    from rotopaint_ai.pipeline.overrides import read_inputs

    try:
        return read_inputs(Path(project), face)
    except (ProjectError, UsageError) as error:
        raise _ShotRefusedError(name, str(error)) from error


def _refuse_shared(names: Sequence[str], shots: Sequence[JobShot], path: Path) -> None:
    seen: set[str] = set()
    owners: dict[str, str] = {}  # project file -> its shot
    for name in names:
        if name.lower() in seen:
            raise UsageError(f"{path.name}: two shots are called '{name}'; each needs its own folder")
        seen.add(name.lower())
    for shot in shots:
        project = shot.job.project
        if project is not None and (other := owners.setdefault(os.path.realpath(project), shot.name)) != shot.name:
            raise UsageError(
                f"{path.name}: '{other}' and '{shot.name}' share the project {Path(project).name}; give each its own"
            )
