"""Mattes and clean plates from shapes that somebody already has: `rotopaint matte` and `rotopaint clean`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rotopaint_ai.errors import DocumentError, RotopaintError, UsageError
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.jobs import Cancel, Event, FillMethod, Sink, warning
from rotopaint_ai.pipeline.clock import Eta
from rotopaint_ai.pipeline.finish import (
    Filled,
    Format,
    check_method,
    check_out,
    draw_mattes,
    look_at_seams,
    write_filled,
    write_mattes,
)
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.shapes.roto import RotoDocument

Work = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Painted:
    """Frames that were written, and those that were not with the reason."""

    done: tuple[int, ...]
    failed: dict[int, str]


def paint_mattes(
    document: RotoDocument, out: Path, *, name: str, frames: str | None, threads: int, sink: Sink, cancel: Cancel
) -> Painted:
    """Write `matte/<shape>.<frame>.exr` and `matte/all.<frame>.exr` for every frame of a document.

    Raises: UsageError for a range that the document does not have; CancelledError.
    """
    format = Format(name, 0, document.width, document.height, document.pixel_aspect, ".exr")
    chosen = _chosen(FrameRange(document.first_frame, document.last_frame), frames, name)

    def work(frame: int) -> None:
        write_mattes(out, draw_mattes(document.shapes, frame, format), frame, format)

    return _each(chosen, work, name=name, out=out, threads=threads, sink=sink, cancel=cancel)


def paint_clean(
    plate: Plate,
    document: RotoDocument,
    out: Path,
    *,
    method: FillMethod,
    frames: str | None,
    threads: int,
    sink: Sink,
    cancel: Cancel,
) -> Painted:
    """Write `clean/<plate name>.<frame>.<suffix>` for every frame that both plate and document have.

    Raises: DocumentError where plate and document differ in size; UsageError for frames or a method that are not there,
    and for an `out` whose clean folder holds the plate; CancelledError.
    """
    check_method(method)
    check_out(out, plate)
    if not any(shape.role == "seam" for shape in document.shapes):
        raise DocumentError("shapes: none has the role 'seam', there is nothing to paint away; set the role of a shape")
    if (document.width, document.height) != (plate.width, plate.height):
        raise DocumentError(
            f"shapes: drawn for {document.width} x {document.height}, {plate.name} is {plate.width} x {plate.height}; "
            "take the shapes of this plate"
        )
    wanted = _chosen(FrameRange(document.first_frame, document.last_frame), frames, "shapes")
    there = set(plate.frames)
    missing = [frame for frame in wanted if frame not in there]
    if len(missing) == len(wanted):
        raise UsageError(f"{plate.name}: has frames {summarise(there)}, the shapes {summarise(wanted)}; none in common")
    format = Format.of(plate)

    def work(number: int) -> None:
        frame = plate.read(number)
        seams = look_at_seams(frame, draw_mattes(document.shapes, number, format), document.shapes)
        filled = Filled(seams, seams.filled(method)) if seams is not None else None
        write_filled(out / format.clean_name(number), frame, filled)

    chosen = [frame for frame in wanted if frame in there]
    painted = _each(chosen, work, name=plate.name, out=out, threads=threads, sink=sink, cancel=cancel, missing=missing)
    absent = {frame: f"{plate.name}: frame {frame} is not on disk" for frame in missing}
    return Painted(painted.done, {**painted.failed, **absent})


def _chosen(whole: FrameRange, text: str | None, name: str) -> list[int]:
    wanted = whole.checked() if text is None else FrameRange.parse(text)
    frames = [frame for frame in wanted if frame in whole]
    if not frames:
        raise UsageError(f"--frames {wanted}: {name} has frames {whole}; choose among those")
    return frames


def _each(
    frames: Sequence[int],
    work: Work,
    *,
    name: str,
    out: Path,
    threads: int,
    sink: Sink,
    cancel: Cancel,
    missing: Sequence[int] = (),
) -> Painted:
    """Do something for every frame on several threads; a frame that refuses is told and the others go on."""
    started = {"name": name, "out": str(out), "total": len(frames), "done": 0, "missing": list(missing)}
    sink(Event("started", {**started, "first_frame": frames[0], "last_frame": frames[-1]}))
    if missing:
        sink(warning(f"{name}: not on disk: frames {summarise(missing)}; render or copy them"))
    done: list[int] = []
    failed: dict[int, str] = {}
    eta = Eta(total=len(frames), done=0)
    for frame, message in _through(frames, work, threads, cancel):
        if message is None:
            done.append(frame)
            sink(Event("frame", {"frame": frame, "status": "done"}))
        else:
            failed[frame] = message
            sink(Event("error", {"frame": frame, "message": message}))
        sink(Event("progress", eta.step()))
    if cancel.requested:
        sink(Event("cancelled", {"done": len(done), "total": len(frames)}))
        cancel.check()
    sink(Event("finished", {"done": len(done), "failed": list(failed), "missing": list(missing), "out": str(out)}))
    return Painted(tuple(done), failed)


def _through(frames: Sequence[int], work: Work, threads: int, cancel: Cancel) -> Iterator[tuple[int, str | None]]:
    with ThreadPoolExecutor(threads, thread_name_prefix="paint") as pool:
        numbers = iter(frames)
        ahead: deque[tuple[int, Future[None]]] = deque()
        while True:
            more = 0 if cancel.requested else threads + 1 - len(ahead)
            ahead.extend((frame, pool.submit(work, frame)) for frame in islice(numbers, more))
            if not ahead:
                return
            frame, future = ahead.popleft()
            yield frame, _message(frame, future)


def _message(frame: int, future: Future[None]) -> str | None:
    try:
        future.result()
    except RotopaintError as error:
        return str(error) if str(frame) in str(error) else f"frame {frame}: {error}"
    return None
