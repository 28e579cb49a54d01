"""The process for slow requests about a document: key reduction, exports with self-check, the engine's abilities.

Runs as `python -m rotopaint_ui.engine.export_worker` beside the panel. Standard input takes one line of JSON and,
where the question is about a document, its text after that line. Standard output gives one line of JSON.

    {"ask": "reduce", "tolerance_px": 0.5}
    {"ask": "export", "tolerance_px": 0.5, "targets": ["/shot/shapes.nk", "/shot/shapes.svg"], "reduced": "/tmp/x.json"}
    {"ask": "shots", "path": "/show/jobs.yaml"}
    {"ask": "follow", "plate": "/shot/plate.####.exr", "colourspace": null, "frames": [1001, 1002], "shapes": ["badge"]}

`reduce` answers with the number of keys before and after and the largest deviation in pixels; `export` with a row for
each target: its path, the distance found by reading it back, what it does not hold, or why it was not written; `shots`
with the jobs of a show's file; `follow` with where shapes lie on frames that nobody keyed, on which frames they are
lost, and by how many pixels they may be off on others; on the way it tells how far it is, {"progress": [done, total]}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange import formats
from rotopaint_ai.shapes.reduce import deviation, reduce_keys
from rotopaint_ai.shapes.roto import RotoDocument

Facts = dict[str, Any]


def answer(request: Mapping[str, Any], text: str) -> Facts:
    """The reply to one question; an error becomes a reply with a field `error`, one line."""
    try:
        return _ANSWERS[request["ask"]](request, text)
    except OSError as error:
        why = error.strerror or str(error)
        return {"error": f"{error.filename or 'Files'}: {why}; check the disk and its permissions, and ask again"}
    except RotopaintError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "out of memory; close other programs and ask again"}
    except Exception as error:  # a door: a surprise here must reach the artist as a line, not as silence
        return {"error": f"{type(error).__name__}: {error}"}


def _list_shots(request: Mapping[str, Any], text: str) -> Facts:
    from rotopaint_ai.batch.jobs_file import read_show

    return {"shots": [{"name": shot.name, **shot.job.to_json()} for shot in read_show(Path(request["path"])).shots]}


def _follow_shapes(request: Mapping[str, Any], text: str) -> Facts:
    from rotopaint_ai.plates import open_plate
    from rotopaint_ai.seams.planar import follow_plane

    document, names, frames = documents.loads(text), request["shapes"], request["frames"]
    away = [shape for shape in document.shapes if shape.subtract and shape.name not in names]
    points: dict[str, Any] = {}
    feathers: dict[str, Any] = {}
    lost: set[int] = set()
    unsure: dict[int, float] = {}
    with open_plate(request["plate"], colourspace=request.get("colourspace")) as plate:
        for k, name in enumerate(names):
            found = follow_plane(
                document.shape(name), frames, plate, away=away, progress=partial(_print_progress, k, len(names))
            )
            points[name] = {str(frame): rows for frame, rows in found.points.items()}
            feathers[name] = {str(frame): rows for frame, rows in found.feathers.items()}
            lost |= set(found.lost)
            unsure |= {frame: max(px, unsure.get(frame, 0.0)) for frame, px in found.unsure.items()}
    return {"points": points, "feathers": feathers, "lost": sorted(lost), "unsure": unsure}


def _follow_group(request: Mapping[str, Any], text: str) -> Facts:
    from rotopaint_ai.plates import open_plate
    from rotopaint_ai.seams.planar import follow_group

    document, names = documents.loads(text), request["shapes"]
    shapes = [shape for shape in document.shapes if shape.name in names]
    away = [shape for shape in document.shapes if shape.subtract and shape.name not in names]
    with open_plate(request["plate"], colourspace=request.get("colourspace")) as plate:
        progress = partial(_print_progress, 0, 1)
        found = follow_group(shapes, request["start"], request["frames"], plate, away=away, progress=progress)
    track = {str(frame): homography.ravel().tolist() for frame, homography in found.homographies.items()}
    return {"track": track, "lost": list(found.lost), "unsure": dict(found.unsure)}


def _print_progress(nth: int, n_shapes: int, done: int, total: int) -> None:
    print(json.dumps({"progress": [nth * total + done, n_shapes * total]}), flush=True)


def _reduce(request: Mapping[str, Any], text: str) -> Facts:
    _, facts = reduce_with_facts(documents.loads(text), float(request["tolerance_px"]))
    return facts


def _export_files(request: Mapping[str, Any], text: str) -> Facts:
    document, facts = reduce_with_facts(documents.loads(text), float(request["tolerance_px"]))
    if request.get("reduced"):
        documents.write(Path(request["reduced"]), document)
    return {**facts, "files": [_written_file(path, document) for path in request["targets"]]}


def reduce_with_facts(document: RotoDocument, tolerance_px: float) -> tuple[RotoDocument, Facts]:
    """A document with fewer keys, and how many there were, are, and how far off (pixels) they put the curves."""
    shapes, worst, rows = [], 0.0, {}
    for shape in document.shapes:
        fewer = reduce_keys(shape, tolerance_px)
        off = deviation(shape, fewer) if fewer is not shape else 0.0
        worst = max(worst, off)
        rows[shape.name] = [len(shape.keys), len(fewer.keys), off]
        shapes.append(fewer)
    before, after = (sum(row[column] for row in rows.values()) for column in (0, 1))
    facts = {"before": before, "after": after, "worst_px": worst, "shapes": rows}
    return replace(document, shapes=tuple(shapes)), facts


def _written_file(path: str, document: RotoDocument) -> Facts:
    try:
        error, losses = formats.write(path, document)
    except OSError as trouble:
        why = trouble.strerror or str(trouble)
        return {"path": path, "error": f"{path}: cannot be written ({why}); choose another folder, or make room"}
    except RotopaintError as trouble:
        return {"path": path, "error": str(trouble)}
    return {"path": path, "error_px": error, "losses": list(losses)}


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any], str], Facts]] = {
    "reduce": _reduce,
    "shots": _list_shots,
    "export": _export_files,
    "follow": _follow_shapes,
    "follow group": _follow_group,
}


def main() -> int:
    """Answer the question on standard input."""
    request = json.loads(sys.stdin.readline())
    print(json.dumps(answer(request, sys.stdin.read())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
