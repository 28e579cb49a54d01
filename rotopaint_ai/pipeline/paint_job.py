"""Mattes and clean plates from existing shapes: `rotopaint matte` and `rotopaint clean`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rotopaint_ai.errors import DocumentError, RotopaintError, UsageError
from rotopaint_ai.frames import FrameRange, parse_frames, summarise
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline.executor import Eta
from rotopaint_ai.pipeline.hold_outs import Fronts
from rotopaint_ai.pipeline.out_folder import (
    Files,
    FolderClaim,
    Stamps,
    claim_folder,
    frames_not_as_written,
    other_frames,
    stamps_of,
)
from rotopaint_ai.pipeline.painter import MATTES_NAME, NOT_PAINTED, ExternalMattes, Painter, Rig
from rotopaint_ai.pipeline.render_frame import (
    PATCH_FOLDER,
    Format,
    check_same_size,
    draw_mattes,
    layer_names,
    write_mattes,
)
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.seams.front import FrontFinder
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.paint_settings import AUTO, PaintTable
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes.roto import RotoDocument

Work = Callable[[int], Mapping[str, float] | None]  # processes a frame; returns the facts for its event


@dataclass(frozen=True, slots=True)
class PaintedFrames:
    """Frames that were written, and those that were not, with the reason."""

    done: tuple[int, ...]
    failed: dict[int, str]


@dataclass(frozen=True, slots=True)
class CleanJob:
    """The settings of `paint_clean`.

    `document`: its seams are painted; None where only `mattes` define the area. `mattes`: external mattes, in place of
    those of the shapes. `patch`: also write the paint as a separate layer. `measures_widths`: the width of each open
    seam is measured in each frame, whatever its shape says. `strokes`: touch-up by hand, by frame. `rig`: the area
    under the mattes is a rig, and is filled completely. `find_front`: what it finds in front of the face is held out of
    the paint over the document's seams; rigs and external mattes are painted whole.
    """

    out: Path
    document: RotoDocument | None
    mattes: ExternalMattes | None = None
    paints: PaintTable = AUTO
    model: LearnedFill | None = None
    frames: str | None = None
    patch: bool = False
    measures_widths: bool = False
    strokes: Mapping[int, Strokes] = field(default_factory=dict)
    overwrite: bool = False
    rig: Rig | None = None
    find_front: FrontFinder | None = None

    @property
    def can_hold_out(self) -> bool:
        """Whether something in front of the face can be held out: the mattes are those of seams, around landmarks."""
        is_seams = self.document is not None and self.mattes is None and self.rig is None
        return is_seams and bool(self.document is not None and self.document.landmarks.keys)

    def fronts(self, plate: Plate) -> Fronts | None:
        """What stands in front of the face in the document's frames; None where nothing looks for it."""
        if self.document is None or self.find_front is None or not self.can_hold_out:
            return None
        return Fronts.of_document(plate, self.document, self.find_front)


def paint_mattes(
    document: RotoDocument,
    out: Path,
    *,
    name: str,
    frames: str | None,
    threads: int,
    sink: Sink,
    cancel: Cancel,
    overwrite: bool = False,
) -> PaintedFrames:
    """Write `matte/<shape>.<frame>.exr` and `matte/all.<frame>.exr` for the frames asked for, or all of a document.

    Before the first key and after the last a shape holds, as in Nuke; a warning names such frames. So
    does one for frames in `out` that an earlier job wrote, perhaps from other shapes, and that stay.
    Raises: UsageError for an invalid text of frames; DocumentError for a document without shapes; CancelledError.
    """
    if not document.shapes:
        raise DocumentError(f"{name}: has no shapes, so there is no matte to write; draw one first")
    format = Format(name, 0, document.width, document.height, document.pixel_aspect, ".exr")
    there = FrameRange(document.first_frame, document.last_frame).checked()
    chosen = parse_frames(frames) if frames is not None else list(there)
    _warn_of_held(chosen, document, sink)
    names = [
        Files("matte", each, ".exr", frozenset(chosen)) for each in (*layer_names(_shape_names_of(document)), "all")
    ]
    claim = FolderClaim(out, names, size=(document.width, document.height), overwrite=overwrite)
    if older := other_frames(out, names):
        sink(warning(f"{out / 'matte'}: frames {summarise(older)} are of an earlier job, and stay as they are"))

    def work(frame: int) -> None:
        write_mattes(out, draw_mattes(document.shapes, frame, format), frame, format)

    with claim_folder(claim):
        return _for_each_frame(
            chosen, work, name=name, out=out, files=names, threads=threads, sink=sink, cancel=cancel, absent={}
        )


def _shape_names_of(document: RotoDocument) -> list[str]:
    return [shape.name for shape in document.shapes]


def paint_clean(plate: Plate, job: CleanJob, *, threads: int, sink: Sink, cancel: Cancel) -> PaintedFrames:
    """Write `clean/<plate name>.<frame>.<suffix>` for every frame of the plate, or those asked for.

    Before the first key and after the last a shape holds, as in Nuke; a warning names such frames. Frames that were
    asked for, or that the shapes have, and that the plate lacks are reported, and count as failed.
    Raises: DocumentError where plate and document differ in size or no shape is a seam; UsageError for frames or a
    method that are not there, and for an `out` whose clean folder holds the plate; CancelledError.
    """
    _check_size(plate, job)
    whole, chosen, absent = _chosen_frames(plate, job)
    if job.document is not None:
        _warn_of_held(chosen, job.document, sink)
    painter = Painter.of(
        plate,
        whole,
        out=job.out,
        shapes=job.document.shapes if job.document is not None else (),
        mattes=job.mattes,
        paints=job.paints,
        model=job.model,
        patch=job.patch,
        measures_widths=job.measures_widths,
        strokes=job.strokes,
        rig=job.rig,
        fronts=job.fronts(plate),
    )
    sources = [job.mattes.pictures] if job.mattes is not None else []
    sources += [job.rig.clean_plate] if job.rig is not None and job.rig.clean_plate is not None else []
    files = _written_files(plate, job, chosen)
    with claim_folder(FolderClaim(job.out, files, plate, sources, overwrite=job.overwrite)):
        return _for_each_frame(
            chosen,
            painter.paint,
            name=plate.name,
            out=job.out,
            files=files,
            threads=threads,
            sink=sink,
            cancel=cancel,
            absent=absent,
            empty=f"{job.mattes.pictures.name}: is empty or covers all, nothing was painted" if job.mattes else "",
        )


def _written_files(plate: Plate, job: CleanJob, chosen: Sequence[int]) -> list[Files]:
    """The files that the job writes: clean plates, and patches if requested."""
    format, frames = Format.of(plate), frozenset(chosen)
    padding = format.padding or 4
    clean = Files("clean", format.name, format.suffix, frames, padding)
    return [clean, Files(PATCH_FOLDER, format.name, ".exr", frames, padding)] if job.patch else [clean]


def _check_size(plate: Plate, job: CleanJob) -> None:
    seams = [shape.name for shape in job.document.shapes if shape.role == "seam"] if job.document else []
    if job.document is None:
        return
    if not seams and job.mattes is None and job.rig is None:
        raise DocumentError("shapes: none has the role 'seam', there is nothing to paint away; set the role of a shape")
    if unknown := sorted(set(job.paints.by_name) - set(seams)):
        raise UsageError(f"--settings: '{unknown[0]}' is no seam of the shapes; they have {', '.join(seams)}")
    size = (job.document.width, job.document.height)
    check_same_size("shapes: drawn for", size, plate, "take the shapes of this plate")


def _chosen_frames(plate: Plate, job: CleanJob) -> tuple[list[int], list[int], dict[int, str]]:
    """All frames that could be painted, those to paint, and those that cannot be painted, with the reason."""
    there, outside = set(plate.frames), dict[int, str]()
    if job.document is not None:
        own, name = set(FrameRange(job.document.first_frame, job.document.last_frame).checked()), "shapes"
        is_apart = there.isdisjoint(own)
        is_lost = is_apart and any(len(shape.keys) > 1 for shape in job.document.shapes)
        whole = tuple(sorted(there if is_apart else own | there))
        wanted = list(whole) if job.frames is None else parse_frames(job.frames)
    else:
        assert job.mattes is not None
        whole, name, is_lost = job.mattes.pictures.frames, MATTES_NAME, False
        wanted, outside = _chosen(whole, job.frames, name)
    missing = [frame for frame in wanted if frame not in there]
    if is_lost or len(missing) == len(wanted):
        shown = summarise(own) if is_lost else summarise(wanted)
        raise UsageError(f"{plate.name}: has frames {summarise(there)}, the {name} {shown}; none in common")
    gone = {frame: f"{plate.name}: frame {frame} is not on disk" for frame in missing}
    return [f for f in whole if f in there], [f for f in wanted if f in there], {**outside, **gone}


def _warn_of_held(frames: Sequence[int], document: RotoDocument, sink: Sink) -> None:
    """Report frames outside the range of the shapes, where the shapes hold their first or last key."""
    outside = [frame for frame in frames if not document.first_frame <= frame <= document.last_frame]
    if outside:
        own = summarise([*FrameRange(document.first_frame, document.last_frame)])
        sink(warning(f"shapes: have frames {own}; at {summarise(outside)} their first or last key is held"))


def _chosen(whole: Sequence[int], text: str | None, name: str) -> tuple[list[int], dict[int, str]]:
    """The frames of `whole` in a text (`1001-1010,1015`), and frames in the text that do not exist, with the reason."""
    if text is None:
        return list(whole), {}
    wanted = parse_frames(text)
    there = set(whole)
    frames = [frame for frame in wanted if frame in there]
    if not frames:
        raise UsageError(f"--frames {text}: {name} has frames {summarise(there)}; choose among those")
    outside = [frame for frame in wanted if frame not in there]
    return frames, {frame: f"{name}: frame {frame} is not there" for frame in outside}


def _for_each_frame(
    frames: Sequence[int],
    work: Work,
    *,
    name: str,
    out: Path,
    files: Sequence[Files],
    threads: int,
    sink: Sink,
    cancel: Cancel,
    absent: Mapping[int, str],
    empty: str = "",
) -> PaintedFrames:
    """Process every frame on several threads; a frame that fails is reported, and the others continue.

    `files`: the files of each frame; at the end a frame whose files are gone or changed has failed. `absent`: frames
    that cannot be processed, with the reason; they are reported first, and count as failed. `empty`: what to say where
    no frame has changed.
    """
    missing = sorted(absent)
    started = {"name": name, "out": str(out), "total": len(frames), "done": 0, "missing": missing}
    sink(Event("started", {**started, "first_frame": frames[0], "last_frame": frames[-1]}))
    for line in _absence_lines(absent):
        sink(warning(line))
    done: list[int] = []
    failed: dict[int, str] = {}
    eta, written = Eta(total=len(frames), done=0), dict[int, Stamps]()

    def write(frame: int) -> Mapping[str, float] | None:
        facts = work(frame)
        written[frame] = stamps_of(out, files, frame)
        return facts

    untouched: list[int] = []
    for frame, message, facts in _paint_frames(frames, write, threads, cancel):
        if message is None:
            done.append(frame)
            untouched += [frame] if NOT_PAINTED in facts else []
            shown = {name: value for name, value in facts.items() if name != NOT_PAINTED}
            sink(Event("frame", {"frame": frame, "status": "done", **shown}))
        else:
            failed[frame] = message
            sink(Event("error", {"frame": frame, "message": message}))
        sink(Event("progress", eta.step()))
    if cancel.is_requested:
        sink(Event("cancelled", {"done": len(done), "total": len(frames)}))
        cancel.check()
    for frame in frames_not_as_written(out, written):
        failed[frame] = f"frame {frame}: files are gone from {out} or not those that were written; run again"
        sink(Event("error", {"frame": frame, "message": failed[frame]}))
    done = [frame for frame in done if frame not in failed]
    if empty and done and set(done) <= set(untouched):
        sink(warning(empty))
    sink(Event("finished", {"done": len(done), "failed": list(failed), "missing": missing, "out": str(out)}))
    return PaintedFrames(tuple(done), {**failed, **absent})


def _absence_lines(absent: Mapping[int, str]) -> list[str]:
    """One line for every reason, naming its frames."""
    by_reason: dict[str, list[int]] = {}
    for frame, reason in absent.items():
        by_reason.setdefault(reason.replace(f"frame {frame} is", "frames {} are"), []).append(frame)
    advice = "; render or copy them, or ask for others with --frames"
    return [reason.replace("{}", summarise(frames)) + advice for reason, frames in by_reason.items()]


def _paint_frames(
    frames: Sequence[int], work: Work, threads: int, cancel: Cancel
) -> Iterator[tuple[int, str | None, Mapping[str, float]]]:
    with ThreadPoolExecutor(threads, thread_name_prefix="paint") as pool:
        numbers = iter(frames)
        ahead: deque[tuple[int, Future[Mapping[str, float] | None]]] = deque()
        while True:
            more = 0 if cancel.is_requested else threads + 1 - len(ahead)
            ahead.extend((frame, pool.submit(work, frame)) for frame in islice(numbers, more))
            if not ahead:
                return
            frame, future = ahead.popleft()
            message = _failure_of(frame, future)
            yield frame, message, {} if message is not None else future.result() or {}


def _failure_of(frame: int, future: Future[Mapping[str, float] | None]) -> str | None:
    try:
        future.result()
    except RotopaintError as error:
        return str(error) if str(frame) in str(error) else f"frame {frame}: {error}"
    except FileNotFoundError as error:
        return f"frame {frame}: {error.filename}: its folder was removed while it was written; start again"
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a bug that shows in one frame must not stop the others
        return f"frame {frame}: {type(error).__name__}: {error}; please send it"
    return None
