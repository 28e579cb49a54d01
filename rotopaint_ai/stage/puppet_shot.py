"""A whole shot of the stage: a puppet that talks and looks around on twos, with plates and ground truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.files import replacing, write_json
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ai.stage import anatomy
from rotopaint_ai.stage.looks import draw_style
from rotopaint_ai.stage.puppet import Pose, PuppetBuild, draw_build, draw_pose
from rotopaint_ai.stage.scene import StageFrame, render, render_looks, render_rigged
from rotopaint_ai.stage.studio import Studio, draw_studio
from rotopaint_ai.stage.view import Camera

F32 = npt.NDArray[Any]  # float32


@dataclass(frozen=True, slots=True)
class StageShot:
    """The settings of a shot: character and studio by seed, size of the picture, frames, frames per pose.

    Each `take` has different motion of the same character in the same studio. rig: one of `rigs.KINDS`; the puppet then
    has no seam, so that clean frames differ only by the rig. pan_px: pan of the camera over the shot. sculpted: a face
    that is carved more deeply and a lens with a focus, as in `puppet.draw_build` and `studio.draw_studio`.
    """

    seed: int
    width: int = 960
    height: int = 540
    first_frame: int = 1001
    frames: int = 24
    hold: int = 2
    face_px: float = 150.0  # pixels per head unit; a head is about two units high
    occluded: tuple[int, int] | None = None  # frames, both included, with an object in front of the face
    take: int = 1
    rig: str | None = None
    pan_px: float = 0.0
    sculpted: bool = False


def poses(shot: StageShot) -> Iterator[tuple[int, int, Pose]]:
    """Each frame with the first frame of its hold and its pose."""
    rng = np.random.default_rng([shot.seed, 41, *([shot.take] if shot.take > 1 else [])])
    start, end = rng.normal(0, [0.28, 0.1, 0.06]), rng.normal(0, [0.28, 0.1, 0.06])
    mouths = [
        (float(rng.beta(1.2, 1.6)) * (rng.random() < 0.75), rng.uniform(0.7, 1.25), rng.uniform(-0.3, 0.8))
        for _ in range(shot.frames)
    ]
    blink = int(rng.integers(2, max(3, shot.frames // shot.hold - 2)))
    brows = rng.normal(0, [0.04, 0.2], (shot.frames, 2))
    gaze = rng.normal(0, [0.25, 0.12], 2)
    for k in range(shot.frames):
        held = k // shot.hold
        t = held * shot.hold / max(shot.frames - 1, 1)
        ease = t * t * (3 - 2 * t)
        yaw, pitch, roll = (1 - ease) * start + ease * end
        opened, wide, smile = mouths[held // 2 if held % 3 else held]
        lids = {0: 0.45, 1: 0.0, 2: 0.5}.get(held - blink, 1.0)
        raised, tilted = brows[held // 3]
        yield (
            shot.first_frame + k,
            shot.first_frame + held * shot.hold,
            Pose(
                yaw=float(yaw),
                pitch=float(pitch),
                roll=float(roll),
                mouth_open=float(opened),
                mouth_wide=wide,
                smile=smile,
                brow_raise=float(raised),
                brow_tilt=float(tilted),
                eye_open=(lids, lids),
                gaze=(float(gaze[0]), float(gaze[1])),
                squint=0.1,
            ),
        )


def film(
    shot: StageShot, *, build: PuppetBuild | None = None, studio: Studio | None = None, clean: bool = True
) -> Iterator[tuple[int, StageFrame]]:
    """Render a shot frame by frame; held frames repeat the exposure with different grain."""
    build = build or draw_build(shot.seed, sculpted=shot.sculpted)
    studio = studio or draw_studio(shot.seed, sculpted=shot.sculpted)
    camera = Camera(shot.width, shot.height, shot.face_px, (shot.width * 0.5, shot.height * 0.5), studio.distance)
    texture = int(np.clip(shot.face_px * 14, 768, 4096))
    reach = math.ceil(abs(shot.pan_px) / 2)
    for frame, _, pose in poses(shot):
        done = (frame - shot.first_frame) / max(shot.frames - 1, 1)
        camera = replace(camera, pan=shot.pan_px * (done - 0.5), pan_reach=reach)
        if shot.rig is not None:
            yield frame, render_rigged(build, pose, studio, camera, shot.rig, grain_seed=frame, texture=texture)
            continue
        hidden = shot.occluded is not None and shot.occluded[0] <= frame <= shot.occluded[1]
        yield frame, render(build, pose, studio, camera, grain_seed=frame, hidden=hidden, texture=texture, clean=clean)


def truth(shot: StageShot, pictures: dict[int, StageFrame]) -> RotoDocument:
    """The exact roto of rendered frames, as a document."""
    names = anatomy.all_landmark_names()
    marks = {
        f: tuple(Landmark(float(x), float(y)) if v else None for x, y, v in p.landmarks) for f, p in pictures.items()
    }
    shapes = []
    for row, curve in enumerate(anatomy.CURVES):
        drawn = {f: p.shapes[row] for f, p in pictures.items()}
        keys = {f: Key(tuple(ControlPoint(*map(float, q)) for q in s.points), "human") for f, s in drawn.items()}
        widths = [s.width_px for s in drawn.values() if s.width_px is not None]
        shapes.append(
            RotoShape(
                curve.name,
                curve.closed,
                "seam" if curve.role == "seam" else "matte",
                keys,
                width_px=float(np.mean(widths)) if widths else None,
            )
        )
    last = shot.first_frame + shot.frames - 1
    return RotoDocument(
        shot.width, shot.height, shot.first_frame, last, landmarks=LandmarkKeys(names, marks), shapes=tuple(shapes)
    )


def face_box(picture: StageFrame) -> tuple[float, float, float, float]:
    """A rough box x, y, w, h around the face, as an artist would drag it."""
    low, high = picture.landmarks[:, :2].min(0), picture.landmarks[:, :2].max(0)
    grow = 0.12 * float(max(high - low))
    return tuple(float(round(v)) for v in (*(low - grow), *(high - low + 2 * grow)))  # type: ignore[return-value]


def write_shot(
    folder: Path,
    shot: StageShot,
    *,
    suffix: str = ".exr",
    compression: str = "zip",
    clean: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Render a shot to `folder`: plate.####, clean.#### and seam.#### pictures, truth.roto.json and crop.json.

    With a rig, rig.#### replaces seam.####. `progress` is called with the numbers of finished and of all frames.
    Raises: UsageError for a suffix other than .exr, .png or .jpg.
    """
    _write_shot_files(folder, shot, film(shot, clean=clean), suffix, compression, clean, progress)


def film_looks(
    seed: int, *, poses: int, looks: int, size: int = 448, sculpted: bool = False
) -> Iterator[tuple[StageShot, int, StageFrame]]:
    """Render one character in several poses, each with the same looks of its seam: shot, frame, picture.

    The shots differ only in the seam. Every pose has its own light, size and folds. Every second pose is hard to paint:
    glossy freckled skin, a strong rim light, usually an object in front.
    """
    rng = np.random.default_rng([seed, 0x100C5])
    build = draw_build(seed, sculpted=sculpted)
    drawn = [draw_style(seed * 1000 + k) for k in range(looks)]
    for k in range(poses):
        scale = float(np.exp(rng.uniform(np.log(95), np.log(200))))
        centre = (size / 2 + float(rng.normal(0, 20)), size * 0.5 + float(rng.normal(0, 20)))
        studio = draw_studio(seed * 1000 + k, sculpted=sculpted)
        studio = replace(studio, focus_blur=studio.focus_blur * 0.5, grain=studio.grain * float(rng.uniform(0, 1)))
        camera = Camera(size, size, scale, centre, studio.distance)
        hard = np.random.default_rng([seed, k, 0x4A4D])
        worn, studio = _harden_character(build, studio, hard) if k % 2 else (build, studio)
        pictures = render_looks(
            worn,
            draw_pose(rng),
            studio,
            camera,
            drawn,
            folds=seed * 1000 + k,
            grain_seed=k,
            hidden=bool(k % 2) and hard.random() < 0.7,
            texture=1536,
        )
        for n, picture in enumerate(pictures):
            yield StageShot(seed * 1000 + n, size, size, frames=poses, hold=1, face_px=scale), 1001 + k, picture


def _harden_character(build: PuppetBuild, studio: Studio, rng: np.random.Generator) -> tuple[PuppetBuild, Studio]:
    """A character and a studio whose seams are hard to paint: gloss, freckles, a strong rim light."""
    glossy = replace(
        build,
        specular=float(rng.uniform(0.1, 0.5)),
        roughness=float(rng.uniform(0.2, 0.45)),
        freckles=int(rng.integers(0, 120)),
    )
    rim = replace(studio.rim, colour=studio.rim.colour * rng.uniform(1.0, 3.0))
    return glossy, replace(studio, rim=rim)


def write_looks(folder: Path, seed: int, *, poses: int, looks: int, sculpted: bool = False) -> None:
    """Write the frames of `film_looks` to `folder`/<seed>_<look>: half EXR plate, clean; seam PNG; truth.roto.json."""
    kept: dict[int, tuple[StageShot, dict[int, StageFrame]]] = {}
    empty = np.zeros((0, 0, 3), np.float32)
    for shot, frame, picture in film_looks(seed, poses=poses, looks=looks, sculpted=sculpted):
        place = folder / f"{seed:06d}_{shot.seed % 1000}"
        place.mkdir(parents=True, exist_ok=True)
        write_linear_picture(place / f"plate.{frame:04d}.exr", picture.plate)
        write_linear_picture(place / f"clean.{frame:04d}.exr", picture.clean)
        write_linear_picture(place / f"seam.{frame:04d}.png", np.repeat(picture.seam[..., None], 3, 2))
        pictures = kept.setdefault(shot.seed, (shot, {}))[1]
        pictures[frame] = replace(picture, plate=empty, clean=empty, seam=empty[..., 0])
    for shot, pictures in kept.values():
        document.write(folder / f"{seed:06d}_{shot.seed % 1000}" / "truth.roto.json", truth(shot, pictures))


def write_sample(folder: Path, *, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Render the sample shot that the product ships: half EXR plates, ground truth, and a rough crop."""
    shot = StageShot(219, width=960, height=540, frames=24, face_px=150.0)
    build = draw_build(shot.seed)
    build = replace(build, seam_gap=max(build.seam_gap, 0.009), seam_bevel=0.014, seam_depth=0.85, seam_rise=0.1)
    studio = draw_studio(204)
    studio = replace(studio, grain=0.004, exposure=studio.exposure * 0.72)
    pictures = film(shot, build=build, studio=studio, clean=False)
    _write_shot_files(folder, shot, pictures, ".exr", "dwaa:160", False, progress)


def _write_shot_files(
    folder: Path,
    shot: StageShot,
    pictures: Iterator[tuple[int, StageFrame]],
    suffix: str,
    compression: str,
    clean: bool,
    progress: Callable[[int, int], None],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kept: dict[int, StageFrame] = {}
    box: tuple[float, float, float, float] | None = None
    for frame, picture in pictures:
        write_linear_picture(folder / f"plate.{frame:04d}{suffix}", picture.plate, compression=compression)
        if clean:
            write_linear_picture(folder / f"clean.{frame:04d}{suffix}", picture.clean, compression=compression)
            name, cover = ("seam", picture.seam) if picture.rig is None else ("rig", picture.rig)
            write_linear_picture(folder / f"{name}.{frame:04d}.png", np.repeat(cover[..., None], 3, 2))
        box = box or face_box(picture)
        empty = np.zeros((0, 0, 3), np.float32)
        kept[frame] = replace(picture, plate=empty, clean=empty, seam=empty[..., 0], rig=None)
        progress(len(kept), shot.frames)
    document.write(folder / "truth.roto.json", truth(shot, kept))
    write_json(folder / "crop.json", {"crop": box, "frame": shot.first_frame})


def write_linear_picture(path: Path, linear: F32, *, compression: str = "zip") -> None:
    """Write one linear picture (H, W, 3): half EXR unchanged, PNG and JPEG with the sRGB curve."""
    import OpenImageIO as oiio

    from rotopaint_ai.stage.face_dataset import to_srgb

    suffix = path.suffix.lower()
    if suffix not in (".exr", ".png", ".jpg"):
        raise UsageError(f"{path.name}: the stage writes .exr, .png and .jpg; got {suffix}; choose one of them")
    pixels = linear.astype(np.float16) if suffix == ".exr" else to_srgb(linear)
    spec = oiio.ImageSpec(linear.shape[1], linear.shape[0], 3, oiio.HALF if suffix == ".exr" else oiio.UINT8)
    if suffix == ".exr":
        spec.attribute("compression", compression)
        spec.attribute("FramesPerSecond", oiio.TypeRational, (24, 1))
    elif suffix == ".jpg":
        spec.attribute("CompressionQuality", 95)
    with replacing(path) as beside:
        out = oiio.ImageOutput.create(str(beside))
        if out is None or not out.open(str(beside), spec) or not out.write_image(pixels) or not out.close():
            raise UsageError(f"{path}: cannot be written; check that the folder exists and the disk has room")
