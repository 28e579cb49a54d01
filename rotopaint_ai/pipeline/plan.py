"""A job checked before work starts, and the events that report its progress.

Before any work the plate is open, the pack is loaded, frames and crops are known. Events are made from the plan and
from records (`docs/events.md`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Literal

import rotopaint_ai
from rotopaint_ai import __version__
from rotopaint_ai.crops import AUTO, Crop, CropKeys, crop_around
from rotopaint_ai.errors import CropError, PlateError, UsageError
from rotopaint_ai.frames import evenly_spread, parse_frames, summarise
from rotopaint_ai.inference.models import Models, open_detector, open_models
from rotopaint_ai.inference.pack import BAD_PERCENT, Pack, load_pack
from rotopaint_ai.jobs import Event, RunJob, n_cores, notice, warning
from rotopaint_ai.landmarks.detect import FaceReading, instability, jitter_crops, propose, read
from rotopaint_ai.landmarks.faces import DetectedFace, find_faces, follow_face
from rotopaint_ai.pipeline.export import check_exports, export_files
from rotopaint_ai.pipeline.frame_store import FrameStore, LookStore
from rotopaint_ai.pipeline.known_head import KnownHead, read_head
from rotopaint_ai.pipeline.out_folder import Files, FolderClaim, refuse_sources
from rotopaint_ai.pipeline.overrides import Overrides, ProjectInputs, inputs_for
from rotopaint_ai.pipeline.process_frame import TrackedFrame
from rotopaint_ai.pipeline.record_store import FrameRecord, FrameStatus, crops_before
from rotopaint_ai.pipeline.render_frame import Format, run_files
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.project.merge_run import partial_run_frames

# On a small processor the models get all cores, because the rest has little to do while the face is tracked.
TRACKING_THREADS = 4
LARGEST_CROP = 2.0  # times the plate's longer side: a face that fills the plate and more
TRIES = 8  # frames at the start of a shot that may be broken before 'auto' gives up
LOOKS = 8  # frames of a shot in which 'auto' looks for faces; the tracker follows in between
# Expected error, as a share of the crop, up to which landmarks are those of a face. On 68 plates of the stage on which
# nothing was trained it is at most 0.055 in the 70 faces that the detector finds, at least 0.085 in 8 other finds.
READABLE = 0.07
# Instability (`landmarks.detect`) up to which landmarks are those of a face. In 168 poses of two puppets and 112 faces
# of the stage on which nothing was trained it is at most 0.0105, in 810 boxes on 79 pictures without puppets at least
# 0.0219 (two packs that were taught a puppet: 0.0024, 0.0194). Packs that err more may be less stable: the faces' own
# was at most 1.8 times the pack's median error, somewhat more is allowed.
INSTABILITY = 0.015
INSTABILITY_PER_ERROR = 2.5


@dataclass(frozen=True, slots=True)
class Plan:
    """All inputs of a run, open and checked. `frames` are on disk; `missing` are in the range but not on disk."""

    job: RunJob
    out: Path
    plate: Plate
    models: Models
    frames: tuple[int, ...]
    missing: tuple[int, ...]
    crops: CropKeys
    threads: int
    inputs: ProjectInputs = field(default_factory=ProjectInputs)
    kept: FrameStore = field(default_factory=FrameStore)
    looks: LookStore = field(default_factory=LookStore)
    head: KnownHead | None = None  # of the character that the pack was trained on
    notes: tuple[Event, ...] = ()  # messages for a person before the work starts

    @property
    def work(self) -> Overrides:
        """People's edits of the shot."""
        return self.inputs.work

    @property
    def has_whole_shot(self) -> bool:
        """Whether the run covers every frame of the project's shapes that is on disk."""
        return partial_run_frames({*self.frames, *self.missing}, self.work.document) is None

    def apply_overrides(self, record: FrameRecord) -> FrameRecord:
        """A tracked frame's record with people's edits in place of the models' values."""
        if record.crop is None:
            return record
        own = self.work.apply_overrides(record.frame, TrackedFrame.of(record), self.pack.sheet)
        status: FrameStatus = "done" if own.lost is None else "lost"
        return replace(record, status=status, landmarks=own.landmarks, shapes=own.shapes, errors=own.errors)

    @property
    def pack(self) -> Pack:
        """The model pack."""
        return self.models.pack

    @property
    def format(self) -> Format:
        """The values that determine the names of files."""
        return Format.of(self.plate)

    @property
    def instability(self) -> float:
        """The instability above which a crop counts as no face."""
        return inf if self.job.force else instability_limit(self.pack.card)

    def claim(self) -> FolderClaim:
        """The run's claim on its folder. Another crop or pack makes another job, except in a project."""
        job, frames = self.job, frozenset(self.frames)
        shapes = dict.fromkeys([*self.pack.sheet.shape_names, *(shape.name for shape in self.work.own)])
        has_front = self.models.find_front is not None
        files = [*run_files(shapes, frames, self.format, clean=job.clean, patch=job.patch, front=has_front)]
        if job.project is None:  # the panel writes these as well
            files += [*export_files(job.exports), Files(".", "run", ".json"), Files("report", "index", ".html")]
        asked = {} if job.project is not None else {"pack": self.pack.name, "crops": list(job.crops)}
        return FolderClaim(self.out, files, self.plate, job=asked, overwrite=job.overwrite)

    def fingerprint(self) -> dict[str, Any]:
        """All inputs of the result, as JSON values; `record_store` compares them."""
        job, forced = self.job, ["force"] if self.job.force else []
        return {
            "rotopaint": [__version__, code_digest()],
            "plate": _plate_facts(self.plate),
            "frames": [summarise(self.frames)],
            "crops": list(self.crops.words()),
            "asked": list(job.crops),
            "pack": dict(self.pack.files),
            "settings": [job.clean, job.method, job.patch, self.models.detect.session.device, *forced],
        }


def _plate_facts(plate: Plate) -> list[Any]:
    return [plate.name, plate.suffix, plate.width, plate.height, plate.colourspace]


def make_plan(job: RunJob) -> Plan:
    """Open all inputs. Raises: UsageError, CropError, PlateError, PackError, DeviceError, each with one line."""
    check_exports(job.exports)
    plate = open_plate(job.plates, colourspace=job.colourspace)
    refuse_sources(Path(job.out), run_files((), frozenset(), Format.of(plate), clean=True, patch=True), [plate])
    frames, missing = choose_frames(plate, job.frames)
    inputs = inputs_for(job)
    job = replace(job, crops=job.crops or _project_crops(inputs, job))
    keys = CropKeys.parse(job.crops, first_frame=frames[0])
    if keys != AUTO:
        _check_crops(keys, plate)
    threads = job.threads or n_cores()
    pack = load_pack(job.model)
    head = read_head(pack)
    models = open_models(pack, device=job.device, threads=max(min(threads, TRACKING_THREADS), threads // 2))
    crops, note = _crops_to_follow(job, plate, frames, models, keys)
    found = (note, _doubt_of(models.pack), _fill_note(models.pack, job), _aspect_note(plate), _crop_note(keys, plate))
    notes = tuple(each for each in found if each is not None)
    models = replace(models, pack=replace(models.pack, sheet=inputs.work.sheet(models.pack.sheet)))
    return Plan(job, Path(job.out), plate, models, frames, missing, crops, threads, inputs, head=head, notes=notes)


_SQUEEZED = 0.15  # pixel aspects further from 1 deserve a warning


def _aspect_note(plate: Plate) -> Event | None:
    if abs(plate.pixel_aspect - 1.0) <= _SQUEEZED:
        return None
    return warning(
        f"{plate.name}: its pixels are {plate.pixel_aspect:g} times as wide as high, and the face is read as it is "
        "stored, squeezed: curves are less exact and mattes wider; unsqueeze the plate first"
    )


def _crop_note(keys: CropKeys | Literal["auto"], plate: Plate) -> Event | None:
    if not isinstance(keys, CropKeys):
        return None
    outside = [frame for frame in keys.keys if not plate.frames[0] <= frame <= plate.frames[-1]]
    if not outside:
        return None
    return warning(
        f"--crop: frames {summarise(outside)} are not in {plate.name}, which has {summarise(plate.frames)}; the box "
        "counts for the nearest frame"
    )


def _project_crops(inputs: ProjectInputs, job: RunJob) -> tuple[str, ...]:
    """The crop boxes of a job's project. Raises UsageError where it has none."""
    if not inputs.crops:
        name = Path(job.project or "").name
        raise UsageError(f"{name}: has no crop box yet; draw one in the panel, or give --crop X,Y,W,H")
    return inputs.crops


def _crops_to_follow(
    job: RunJob, plate: Plate, frames: tuple[int, ...], models: Models, keys: CropKeys | Literal["auto"]
) -> tuple[CropKeys, Event | None]:
    """The job's crops; for 'auto' the crops that a resumed run found, or new ones."""
    if isinstance(keys, CropKeys):
        return keys, None
    words = crops_before(Path(job.out), _plate_facts(plate), job.crops) if job.resume else None
    with contextlib.suppress(CropError):  # another version wrote them
        before = CropKeys.parse(words, first_frame=frames[0]) if words is not None else AUTO
        if isinstance(before, CropKeys):
            return before, None
    return propose_crop(plate, frames, models, limit=inf if job.force else None)


def instability_limit(card: Mapping[str, Any]) -> float:
    """The instability above which a pack's landmark model sees no face; infinite where the pack's card states no
    validation error."""
    try:
        error_share = float(card["metrics"]["landmarks_percent"]["median"]) / 100 / float(card["crop_margin"])
    except (KeyError, TypeError, ValueError):
        return inf
    return max(INSTABILITY, INSTABILITY_PER_ERROR * error_share)


def _doubt_of(pack: Pack) -> Event | None:
    """The warning for a pack whose card calls it bad, such as one that was trained for a minute."""
    try:
        share = float(pack.card["metrics"]["landmarks_percent"]["mean"])
    except (KeyError, TypeError, ValueError):
        return None
    if not share > BAD_PERCENT:
        return None
    return warning(
        f"pack {pack.name}: its landmarks are {share:.1f} % of the face off on held-out frames, too far to tell a face "
        "from anything else; look every frame over, or train it longer"
    )


def _fill_note(pack: Pack, job: RunJob) -> Event | None:
    return warning(pack.note) if job.clean and pack.note is not None else None


def choose_frames(plate: Plate, text: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Frames of a plate to work on, and those of the requested range that are not on disk.

    Without a range, one file of a sequence counts as one picture. Raises: UsageError where range and plate do not
    overlap.
    """
    if text is None:
        return ((plate.named_frame,), ()) if plate.named_frame is not None else (plate.frames, plate.missing)
    wanted = set(parse_frames(text))
    frames = tuple(frame for frame in plate.frames if frame in wanted)
    if not frames:
        raise UsageError(f"--frames {text}: {plate.name} has frames {summarise(plate.frames)}; choose among those")
    return frames, tuple(sorted(wanted - set(frames)))


def _check_crops(keys: CropKeys, plate: Plate) -> None:
    for frame, crop in keys.keys.items():
        half = crop.side / 2
        if not (-half < crop.x < plate.width + half and -half < crop.y < plate.height + half):
            raise CropError(
                f"crop at frame {frame}: lies outside the plate of {plate.width} x {plate.height}; X,Y is its top-left "
                "corner in pixels, y down"
            )
        if crop.side > LARGEST_CROP * max(plate.width, plate.height):
            raise CropError(
                f"crop at frame {frame}: {crop.side:g} pixels wide on a plate of {plate.width} x {plate.height}; draw "
                "it around the face"
            )


def propose_crop(
    plate: Plate, frames: tuple[int, ...], models: Models, *, limit: float | None = None
) -> tuple[CropKeys, Event | None]:
    """Crops around the largest face, found by the pack's detector in some frames, and a note for the user.

    A pack without a detector has its landmark model search the first frame. `limit`: the instability up to which a
    detection is a face; None: the pack card's. Raises: CropError where there is no face.
    """
    limit = instability_limit(models.pack.card) if limit is None else limit
    find = open_detector(models.pack)
    if find is None:
        return _proposed_by_landmarks(plate, frames, models), None
    seen: dict[int, list[DetectedFace]] = {}
    n_others = 0
    refused: PlateError | None = None
    for frame in evenly_spread(frames, LOOKS):
        try:
            looked = plate.read(frame, keep_native=False)
        except PlateError as error:
            refused = refused or error
            continue
        found = find_faces(looked.rgb, looked.origin, find, to_display)
        seen[frame] = [face for face in found if _is_readable(face, looked, models, limit)]
        n_others += len(found) - len(seen[frame])
    if refused is not None and not seen:
        raise refused
    face = follow_face(seen)
    if face is None:
        raise CropError(
            f"crop 'auto': no face found in {summarise(sorted(seen))} of {plate.name} ({len(seen)} frames looked at"
            f"{_other_finds(n_others)}); draw a box: --crop X,Y,W,H{_force_advice(n_others)}"
        )
    return face.keys(), notice(face.note, is_warning=face.is_doubtful)


def _is_readable(face: DetectedFace, frame: Frame, models: Models, limit: float) -> bool:
    """Whether the landmark model confirms the face that the detector found."""
    pack = models.pack

    def look(*crops: Crop) -> list[FaceReading]:
        return read(frame.rgb, frame.origin, crops, detect=models.detect, size_px=pack.input_size, display=to_display)

    (rough,) = look(face.crop())
    crop = crop_around(rough.points_LC, margin=pack.crop_margin)  # as in a run
    readings = look(crop, *jitter_crops(crop))
    return readings[0].is_finite and readings[0].error_share <= READABLE and instability(readings) <= limit


def _other_finds(count: int) -> str:
    return f", {count} finds in which the landmark model reads no face" if count else ""


def _force_advice(count: int) -> str:
    return ", or add --force if one is a face" if count else ""


def _proposed_by_landmarks(plate: Plate, frames: tuple[int, ...], models: Models) -> CropKeys:
    """The box that the landmark model proposes in the first readable frame. Raises: CropError."""
    frame = _first_readable(plate, frames)
    box = propose(
        frame.rgb,
        frame.origin,
        width=plate.width,
        height=plate.height,
        detect=models.detect,
        size_px=models.pack.input_size,
        display=to_display,
        margin=models.pack.crop_margin,
    )
    return CropKeys({frame.number: box.crop()})


def _first_readable(plate: Plate, frames: tuple[int, ...]) -> Frame:
    refused: PlateError | None = None
    for frame in frames[:TRIES]:
        try:
            return plate.read(frame, keep_native=False)
        except PlateError as error:
            refused = refused or error
    raise refused or PlateError(f"{plate.name}: has no frames; check the path")


ROOMS = ("crops.py", "inference", "landmarks", "pipeline", "plates", "seams", "shapes", "sheet.py")


@cache
def code_digest() -> str:
    """Digest of the code that decides a run's files, computed once per process, at the start.

    A run resumed by other code would mix frames of both versions; see `record_store`.
    """
    return digest_of(Path(rotopaint_ai.__file__).parent)


def digest_of(package: Path) -> str:
    """Digest of a package's rooms in `ROOMS`: the names and content of their Python files, sorted by name."""
    paths = [path for room in ROOMS for path in _room_files(package / room)]
    digest = hashlib.sha1(usedforsecurity=False)
    for path in paths:
        content = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
        digest.update(f"{path.relative_to(package).as_posix()}\n{content}\n".encode())
    return digest.hexdigest()


def _room_files(room: Path) -> list[Path]:
    if room.is_dir():
        return sorted(room.rglob("*.py"))
    return [room] if room.is_file() else []


def start_event(plan: Plan, *, n_done: int) -> Event:
    """The event before the first frame: plate, pack and device."""
    sheet, plate = plan.pack.sheet, plan.plate
    facts = {
        "name": plate.name,
        "plates": plan.job.plates,
        "out": str(plan.out),
        "width": plate.width,
        "height": plate.height,
        "pixel_aspect": plate.pixel_aspect,
        "fps": plate.fps,
        "first_frame": plan.frames[0],
        "last_frame": plan.frames[-1],
        "total": len(plan.frames),
        "done": n_done,
        "missing": list(plan.missing),
        "pack": plan.pack.name,
        "device": plan.models.device_note,
        "threads": plan.threads,
        "landmarks": list(sheet.landmark_names),
        "shapes": [
            {"name": s.name, "closed": s.closed, "role": s.role, "feather_px": s.feather_px} for s in sheet.shapes
        ],
    }
    return Event("started", facts)


def tracked_event(record: FrameRecord) -> Event:
    """The event of a frame whose face has been followed, or that could not be read."""
    if record.status == "failed":
        return _error_event(record)
    return Event("tracked", {**_roto_of(record), "ms": record.ms})


def frame_event(record: FrameRecord) -> Event:
    """The event of a frame that was finished, or failed."""
    if record.status == "failed":
        return _error_event(record)
    written = {
        "seam_before": record.seam_before,
        "seam_after": record.seam_after,
        "outputs": list(record.outputs),
        "ms": record.ms,
    }
    return Event("frame", {**_roto_of(record), **written, **_under_hand(record)})


def _error_event(record: FrameRecord) -> Event:
    return Event("error", {"message": record.message, "frame": record.frame})


def _under_hand(record: FrameRecord) -> dict[str, Any]:
    """The models' results where people's edits replace them; empty without edits."""
    found = {"predicted": record.predicted, "predicted_landmarks": record.predicted_landmarks}
    return {name: value for name, value in found.items() if value}


def _roto_of(record: FrameRecord) -> dict[str, Any]:
    return {
        "frame": record.frame,
        "status": record.status,
        "lost": record.message,
        "hold": record.hold,
        "crop": record.crop,
        "landmarks": record.landmarks,
        "shapes": record.shapes,
        "widths": record.widths,
        "hidden": list(record.hidden),
        "expected_error_px": record.errors,
        "unseen": record.unseen,
    }
