"""The requests of the live engine. It handles one request at a time, and keeps the pack, the plate and the last frame.

L landmarks, P control points of all shapes. Plate space, pixels.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import __version__
from rotopaint_ai.errors import RotopaintError, UsageError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.live import wire
from rotopaint_ai.pipeline.executor import FrameMemo
from rotopaint_ai.pipeline.hold_outs import Fronts
from rotopaint_ai.pipeline.painter import Painter
from rotopaint_ai.pipeline.plan import propose_crop
from rotopaint_ai.pipeline.render_frame import apply_strokes
from rotopaint_ai.pipeline.teach import ShotReading, read_shot, teach
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame, Plate
from rotopaint_ai.project import Project, run_record
from rotopaint_ai.project.codecs import pack as pack_value
from rotopaint_ai.seams import strokes
from rotopaint_ai.seams.paint_settings import Paint, PaintTable
from rotopaint_ai.shapes.refit import Errors, Keys, spread_keys
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ai.sheet import Sheet

Array = NDArray[Any]
Facts = dict[str, Any]

KEPT_FRAMES = 2  # the frame that is shown, and one from which strokes copy
_LEAST_PX = 1e-3  # a shape that moves by less does not depend on the dragged landmark


class LiveEngine:
    """Answers requests, see `wire`. `folder` is for the blocks; `tell` is called with the progress of a long answer."""

    def __init__(self, folder: Path, tell: Callable[[Facts], None] = lambda facts: None) -> None:
        self._folder, self._tell = folder, tell
        self._models: Models | None = None
        self._plate: Plate | None = None
        self._frames = FrameMemo(self._read_frame, kept=KEPT_FRAMES)
        self._reading: tuple[RotoDocument, ShotReading] | None = None
        self._n_blocks = 0
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], Facts]] = {
            "hello": self._hello,
            "pack": self._open_pack,
            "plate": self._open_plate,
            "drag": self._drag,
            "spread": self._spread_corrections,
            "teach": self._teach_shot,
            "seam": self._paint_seam,
            "crop": self._propose_crop,
        }

    def answer(self, request: Mapping[str, Any]) -> Facts:
        """The answer to one request; an error becomes an answer with a field `error` of one line."""
        start = time.perf_counter()
        try:
            facts = self._answers[request["ask"]](request)
        except (RotopaintError, OSError) as error:
            facts = {"error": " ".join(str(error).split())}
        except MemoryError:
            facts = {"error": "out of memory; close other programs and try again"}
        except Exception as error:  # an unexpected error in one answer must not end the engine
            facts = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        ms = round(1000 * (time.perf_counter() - start), 2)
        return {"id": request.get("id"), "ask": request.get("ask"), **facts, "ms": ms}

    # --- start

    def _hello(self, request: Mapping[str, Any]) -> Facts:
        if request.get("version") != wire.VERSION:
            raise UsageError(
                f"the live engine speaks version {wire.VERSION}, the panel version {request.get('version')}; install "
                "the same RotoPaint AI for both"
            )
        return {"version": wire.VERSION, "product": __version__, "folder": str(self._folder)}

    def _open_pack(self, request: Mapping[str, Any]) -> Facts:
        self._reading = None
        self._models = open_models(load_pack(request.get("model")), device=request.get("device", "cpu"), threads=1)
        sheet = self._models.pack.sheet
        return {"pack": self._models.pack.name, "landmarks": list(sheet.landmark_names), "shapes": _point_counts(sheet)}

    def _open_plate(self, request: Mapping[str, Any]) -> Facts:
        plate = open_plate(request["source"], colourspace=request.get("colourspace"))
        if self._plate is not None:
            self._plate.close()
        self._plate, self._reading = plate, None
        self._frames = FrameMemo(self._read_frame, kept=KEPT_FRAMES)
        return {"name": plate.name, "width": plate.width, "height": plate.height}

    # --- landmarks

    def _drag(self, request: Mapping[str, Any]) -> Facts:
        """The motion of every shape of a frame when its landmarks move from `before` to `after`, as a block."""
        models = self._need_models()
        sheet = models.pack.sheet
        rows = _rows_in_pack(sheet, request["names"], request.get("pack", models.pack.name))
        both = np.array([request["before"], request["after"]], dtype=np.float64)[:, rows]
        points = np.asarray(models.predict_shapes(both.astype(np.float32))[0], dtype=np.float64)
        moved, by = points[1] - points[0], both[1] - both[0]
        changed: dict[str, list[int]] = {}
        for shape in sheet.shapes:
            span = sheet.point_rows()[shape.name]
            for index, name in shape.on_landmarks.items():
                if np.any(by[sheet.landmark_row(name)]):
                    moved[span.start + index, :2] = by[sheet.landmark_row(name)]
            if np.abs(moved[span, :2]).max() > _LEAST_PX:
                changed[shape.name] = [span.start, span.stop]
        held = [s.name for s in sheet.shapes if any(np.any(by[sheet.landmark_row(n)]) for n in s.on_landmarks.values())]
        return {"shapes": changed, "sits": held, "block": self._write_block(moved.tobytes())}

    # --- the whole shot

    def _spread_corrections(self, request: Mapping[str, Any]) -> Facts:
        """New keys of a project's shot: packed one after another in a block; `keys` gives their positions in it."""
        predicted, document, errors = _corrections(request)
        keys = spread_keys(request["way"], predicted, document, request["spread"], errors)
        if not keys:
            raise UsageError("no shape has a human key where the face was found; correct one such frame first")
        return self._packed_keys(keys)

    def _teach_shot(self, request: Mapping[str, Any]) -> Facts:
        """New keys of a project's shot, fitted to its corrections and the open plate.

        The answer also has the expected error of each key, and the doubtful frames of each seam. The shot is read once.
        """
        predicted, document, errors = _corrections(request)
        plate = self._need_plate()
        if (document.width, document.height) != (plate.width, plate.height):
            raise UsageError(
                f"the shapes are for {document.width} x {document.height}, {plate.name} is {plate.width} x "
                f"{plate.height}; open the plate that they were made on"
            )
        if self._reading is None or self._reading[0] != predicted:
            echo = {"id": request.get("id"), "ask": request["ask"]}
            reading = read_shot(
                predicted,
                plate,
                self._need_models(),
                progress=lambda done, total: self._tell({**echo, "done": done, "total": total}),
            )
            self._reading = predicted, reading
        taught = teach(self._reading[1], predicted, document, errors)
        return {
            **self._packed_keys(taught.keys),
            "errors": taught.errors,
            "doubtful": {name: list(frames) for name, frames in taught.doubtful.items()},
            "moved": taught.n_moved,
        }

    def _packed_keys(self, keys: Keys) -> Facts:
        packed = [
            (name, frame, pack_value("key", key)) for name, by_frame in keys.items() for frame, key in by_frame.items()
        ]
        block = self._write_block(b"".join(data for _, _, data in packed))
        return {"keys": [[name, frame, len(data)] for name, frame, data in packed], "block": block}

    # --- seams

    def _paint_seam(self, request: Mapping[str, Any]) -> Facts:
        """The region around a frame's seams with the seams painted out: a block of picture, then matte, 8 bit."""
        frame = self._frames.at(int(request["frame"]))
        plate, document = self._need_plate(), documents.loads(request["shapes"], where="preview")
        if (document.width, document.height) != (plate.width, plate.height):
            raise UsageError(
                f"the shapes are for {document.width} x {document.height}, {plate.name} is {plate.width} x "
                f"{plate.height}; open the plate that they were made on"
            )
        painter = self._painter(document, request["settings"])
        seams = painter.look(frame)
        filled = seams.filled(painter.model) if seams is not None else None
        touchup = tuple(map(strokes.from_json, request.get("strokes", ())))
        filled = apply_strokes(frame, filled, touchup, self._frames.at)
        if filled is None:
            raise UsageError(f"frame {frame.number}: no seam lies on the plate here")
        seams = filled.seams
        height, width = seams.matte.shape
        pixels = np.rint(_display(filled.after, request["look"]) * 255).astype(np.uint8)
        matte = np.ceil(np.clip(seams.matte, 0, 1) * 255).astype(np.uint8)  # 0 where nothing is painted, and only there
        return {
            "frame": frame.number,
            "region": [seams.x, seams.y, width, height],
            "before": seams.look(seams.rgb).score,
            "after": seams.look(filled.after).score,
            "block": self._write_block(pixels.tobytes() + matte.tobytes()),
        }

    def _painter(self, document: RotoDocument, settings: Mapping[str, Any]) -> Painter:
        """A painter for frames of a document, as in `rotopaint clean`; it writes no files."""
        plate, fill = self._need_plate(), self._models.fill if self._models is not None else None
        find_front = self._models.find_front if self._models is not None else None
        return Painter.of(
            plate,
            [frame for frame in plate.frames if document.first_frame <= frame <= document.last_frame],
            out=self._folder,
            shapes=document.shapes,
            mattes=None,
            paints=PaintTable(by_name={name: Paint(**row) for name, row in settings.items()}),
            model=fill,
            patch=False,
            fronts=None if find_front is None else Fronts.of_document(plate, document, find_front),
        )

    def _propose_crop(self, request: Mapping[str, Any]) -> Facts:
        frame = int(request["frame"])
        crops, note = propose_crop(self._need_plate(), (frame,), self._need_models())
        box = crops.at(frame)
        message = note.facts["message"] if note is not None else None
        return {"crop": [box.x - box.side / 2, box.y - box.side / 2, box.side, box.side], "note": message}

    # --- parts

    def _read_frame(self, number: int) -> Frame:
        return self._need_plate().read(number, keep_native=False)

    def _need_models(self) -> Models:
        if self._models is None:
            raise UsageError("no model pack is open; choose one in the top bar")
        return self._models

    def _need_plate(self) -> Plate:
        if self._plate is None:
            raise UsageError("no plate is open; open one first")
        return self._plate

    def _write_block(self, data: bytes) -> str:
        self._n_blocks += 1
        return wire.write_block(self._folder, f"{self._n_blocks}.block", data)


def _corrections(request: Mapping[str, Any]) -> tuple[RotoDocument, RotoDocument, Errors]:
    """The models' prediction of a project's shot, its current document, and the run's expected errors."""
    project = Project.open(Path(request["project"]), write=False)
    try:
        state, run = project.load().state, project.note("run")
    finally:
        project.close()
    if state.document is None or state.predicted is None:
        raise UsageError("nothing was run on this shot yet; press Run first")
    errors = run_record.from_json(run).errors_by_shape() if run else {}
    return state.predicted, state.document, errors


def _point_counts(sheet: Sheet) -> dict[str, int]:
    return {shape.name: shape.n_points for shape in sheet.shapes}


def _rows_in_pack(sheet: Sheet, names: Sequence[str], pack: str) -> list[int]:
    """The rows of the pack's landmarks among the names. Raises UsageError for shapes of another pack."""
    missing = [name for name in sheet.landmark_names if name not in names]
    if missing:
        raise UsageError(
            f"the shapes were not made with pack '{pack}' (landmark '{missing[0]}' is missing); choose the pack "
            "they were made with, or press Run"
        )
    return [list(names).index(name) for name in sheet.landmark_names]


def _display(linear: Array, look: Sequence[Any]) -> Array:
    """Scene-linear pixels converted for the viewer: exposure, view, gamma."""
    exposure, gamma, view = float(look[0]), float(look[1]), str(look[2])
    shown = to_display(np.asarray(linear * np.float32(2.0**exposure), np.float32), view=view)
    with np.errstate(invalid="ignore"):
        shown = np.clip(np.nan_to_num(shown), 0, 1) ** np.float32(1.0 / gamma) if gamma != 1.0 else shown
    return np.asarray(np.clip(np.nan_to_num(shown), 0, 1))


def parse(text: bytes) -> Mapping[str, Any]:
    """The request in a line. Raises UsageError for anything else."""
    try:
        request = json.loads(text)
    except ValueError as error:
        raise UsageError(f"request: is not JSON ({error})") from error
    if not isinstance(request, dict) or not isinstance(request.get("ask"), str):
        raise UsageError("request: wanted an object with a field 'ask'")
    return request
