"""A show or a training as an Open Job Description template, for a farm, or for `openjd run` on one machine.

    Track (one task per shot) -> Paint (one task per range of frames) -> Gather (one per shot) -> Summary
    Mine -> Train -> Evaluate -> Publish (one command each)

Specification: Open Job Description, Template Schemas 2023-09.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rotopaint_ai.batch.jobs_file import Show
from rotopaint_ai.batch.show_plan import ShowPlan
from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_text

VERSION = "jobtemplate-2023-09"
LONGEST = 1024  # values of a task parameter (section 3.4.1)
NAME = 64  # longest name of a step
MOST_SHOTS = 96  # the format allows 100 steps; four are not shots

_PROGRAM = {
    "name": "Program",
    "type": "STRING",
    "default": "rotopaint",
    "description": "the command by which workers call the program",
}


def write_chain(path: Path, name: str, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a template with one command per step; a step starts after the previous one has succeeded."""
    import yaml

    steps: list[dict[str, Any]] = []
    for step, words in commands.items():
        after = {"dependencies": [{"dependsOn": steps[-1]["name"]}]} if steps else {}
        script = {"actions": {"onRun": {"command": "{{Param.Program}}", "args": list(words)}}}
        steps.append({"name": step, **after, "script": script})
    template = {
        "specificationVersion": VERSION,
        "name": name[:NAME],
        "parameterDefinitions": [_PROGRAM],
        "steps": steps,
    }
    write_text(path, yaml.safe_dump(template, sort_keys=False, width=120, allow_unicode=True))


def write_template(show: Show, plan: ShowPlan, path: Path, *, chunked: bool = False) -> int:
    """Write the template of a show; returns the number of tasks.

    `chunked`: each shot is a step with one range of frames, which the farm divides itself (RFC 0001, task chunking).
    Otherwise one step has a list of ranges.

    Raises: UsageError where no shot can be started, where a step would have more tasks than the format allows, or where
    the template is not in the jobs file's folder or above it, because it names the jobs file by a relative path.
    """
    import yaml

    tasks = plan.tasks
    if not tasks:
        raise UsageError(f"{show.path.name}: no shot can be started; correct its plates first")
    if chunked and len({task.shot.name for task in tasks}) > MOST_SHOTS:
        raise UsageError(
            f"--farm-chunks: wanted at most {MOST_SHOTS} shots, as each is a step; leave it out or divide the show"
        )
    template = _template(show, tasks, _relative(show.path, path), chunked)
    write_text(path, yaml.safe_dump(template, sort_keys=False, width=120, allow_unicode=True))
    return len(tasks) + 1


def _relative(jobs: Path, template: Path) -> str:
    relative = os.path.relpath(jobs.resolve(), template.resolve().parent)
    if relative.startswith(".."):
        raise UsageError(
            f"--openjd {template}: wanted a file beside {jobs.name}, because it names that file by a relative path"
        )
    return relative


def _template(show: Show, tasks: Sequence[BatchTask], jobs: str, chunked: bool) -> dict[str, Any]:
    shots = list(dict.fromkeys(task.shot.name for task in tasks))
    pieces = [task for task in tasks if task.kind == "paint"]
    paint = _divide_into_chunks(pieces) if chunked else [_listed_step(pieces)]
    return {
        "specificationVersion": VERSION,
        **({"extensions": ["TASK_CHUNKING"]} if chunked else {}),
        "name": show.path.stem[:64],
        "description": f"RotoPaint AI: {len(shots)} shots; landmarks, shapes, seam mattes, clean plates, reports",
        "parameterDefinitions": [
            {"name": "Jobs", "type": "PATH", "objectType": "FILE", "dataFlow": "IN", "default": jobs},
            _PROGRAM,
        ],
        "steps": [
            _step("Track", {"Shot": shots}),
            *paint,
            _step("Gather", {"Shot": shots}, [step["name"] for step in paint]),
            _step("Summary", {}, ["Gather"]),
        ],
    }


def _listed_step(pieces: Sequence[BatchTask]) -> dict[str, Any]:
    """One step for all shots' ranges."""
    ranges = {"Shot": [task.shot.name for task in pieces], "Frames": [str(task.frames) for task in pieces]}
    return _step("Paint", ranges, ["Track"])


def _divide_into_chunks(pieces: Sequence[BatchTask]) -> list[dict[str, Any]]:
    """A step for each shot, whose frames are a range to be divided into chunks of about the shot's size."""
    steps = []
    for number, shot in enumerate(dict.fromkeys(task.shot for task in pieces), 1):
        ranges = [task.frames for task in pieces if task.shot == shot and task.frames is not None]
        frames = {
            "name": "Frames",
            "type": "CHUNK[INT]",
            "range": f"{ranges[0].first}-{ranges[-1].last}",
            "chunks": {"defaultTaskCount": shot.chunk, "rangeConstraint": "CONTIGUOUS"},
        }
        step = _step("Paint", {"Shot": [shot.name], "Frames": []}, ["Track"])
        step["name"] = f"Paint {number} {shot.name}"[:NAME]
        step["parameterSpace"] = {
            "taskParameterDefinitions": [{"name": "Shot", "type": "STRING", "range": [shot.name]}, frames]
        }
        steps.append(step)
    return steps


def _step(name: str, ranges: Mapping[str, Sequence[str]], after: Sequence[str] = ()) -> dict[str, Any]:
    for values in ranges.values():
        if len(values) > LONGEST:
            raise UsageError(
                f"--openjd: {len(values)} tasks in step {name}, the format allows {LONGEST}; raise 'chunk'"
            )
    words = [f"--{parameter.lower()}={{{{Task.Param.{parameter}}}}}" for parameter in ranges]
    keep_going = ["--keep-going"] if ranges else []  # a failed shot must not stop the farm from doing the others
    arguments = ["batch", "{{Param.Jobs}}", "--task", name.lower(), *words, *keep_going]
    step: dict[str, Any] = {"name": name}
    if after:
        step["dependencies"] = [{"dependsOn": other} for other in after]
    if ranges:
        step["parameterSpace"] = _space(ranges)
    step["script"] = {"actions": {"onRun": {"command": "{{Param.Program}}", "args": arguments}}}
    return step


def _space(ranges: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    parameters = [{"name": name, "type": "STRING", "range": list(values)} for name, values in ranges.items()]
    space: dict[str, Any] = {"taskParameterDefinitions": parameters}
    if len(ranges) > 1:
        space["combination"] = f"({', '.join(ranges)})"
    return space
