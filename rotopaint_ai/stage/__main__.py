"""`python -m rotopaint_ai.stage`: make training data, render a shot, or renew the sample shot of the product."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.frames import n_frames
from rotopaint_ai.jobs import Cancel, Event
from rotopaint_ai.watch import StageProgress, open_sink


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rotopaint_ai.stage", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    dataset = verbs.add_parser("dataset", help="loose face crops of many characters, with landmarks and splines")
    dataset.add_argument("folder", type=Path)
    dataset.add_argument("--characters", type=int, default=1500)
    dataset.add_argument("--seed", type=int, default=0)
    dataset.add_argument("--workers", type=int, default=1)
    dataset.add_argument(
        "--reach", type=float, default=1.0, help="factor by which heads turn further than in a talking shot"
    )
    dataset.add_argument("--size", type=int, default=320, help="side of a crop, pixels")
    dataset.add_argument(
        "--looks", type=int, default=0, help="number of additional versions of each picture, with other seams"
    )
    dataset.add_argument(
        "--fronts", action="store_true", help="put objects in front of the faces, and write what covers each face"
    )
    shot = verbs.add_parser("shot", help="one shot: plates, clean plates, seam coverage and truth")
    shot.add_argument("folder", type=Path)
    shot.add_argument("--seed", type=int, default=1)
    shot.add_argument("--frames", type=int, default=24)
    shot.add_argument("--hold", type=int, default=2, help="frames that each pose is held")
    shot.add_argument("--face", type=float, help="pixels per head unit; a head is about two units high")
    shot.add_argument(
        "--take", type=int, default=1, help="number of the take; each has different motion of the same puppet"
    )
    shot.add_argument(
        "--rig", choices=["arm", "wire", "magnet"], help="rig that holds the puppet; the puppet then has no seam"
    )
    shot.add_argument(
        "--pan", type=float, default=0.0, metavar="PX", help="distance that the camera pans during the shot, pixels"
    )
    shot.add_argument("--size", default="960x540", help="width x height in pixels")
    shot.add_argument("--suffix", default=".exr", choices=[".exr", ".png", ".jpg"])
    seams = verbs.add_parser("seams", help="shots of characters with many looks of their seams, to train the fill")
    seams.add_argument("folder", type=Path)
    seams.add_argument("--characters", type=int, default=90)
    seams.add_argument("--seed", type=int, default=30000)
    seams.add_argument("--poses", type=int, default=2)
    seams.add_argument("--looks", type=int, default=4)
    for verb in (dataset, shot, seams):
        verb.add_argument(
            "--sculpted",
            action="store_true",
            help="carve faces more deeply, with seams that go level over the nose; the lens has a focus",
        )
    plates = verbs.add_parser("plates", help="whole plates with several faces or none, to train the face detector")
    plates.add_argument("folder", type=Path)
    plates.add_argument("--count", type=int, default=1300)
    plates.add_argument("--seed", type=int, default=50000)
    plates.add_argument("--workers", type=int, default=1)
    sample = verbs.add_parser("sample", help="the sample shot of `rotopaint demo`")
    sample.add_argument("folder", type=Path)
    return parser.parse_args()


def _dataset(options: argparse.Namespace, tell: StageProgress) -> str:
    from rotopaint_ai.stage.face_dataset import FaceDatasetOptions, make_dataset

    order = FaceDatasetOptions(
        options.characters,
        options.seed,
        workers=options.workers,
        reach=options.reach,
        size=options.size,
        looks=options.looks,
        fronts=options.fronts,
        sculpted=options.sculpted,
    )
    count = make_dataset(options.folder, order, progress=partial(tell, "characters"))
    return f"{count} samples"


def _make_shot(options: argparse.Namespace, tell: StageProgress) -> str:
    from rotopaint_ai.stage.puppet_shot import StageShot, write_shot

    width, height = (int(n) for n in options.size.split("x"))
    face = options.face or height * 0.27
    shot = StageShot(
        options.seed,
        width,
        height,
        frames=options.frames,
        hold=options.hold,
        face_px=face,
        take=options.take,
        rig=options.rig,
        pan_px=options.pan,
        sculpted=options.sculpted,
    )
    write_shot(options.folder, shot, suffix=options.suffix, progress=partial(tell, "frames"))
    return n_frames(options.frames)


def _make_seams(options: argparse.Namespace, tell: StageProgress) -> str:
    from rotopaint_ai.stage.orders import keep_order
    from rotopaint_ai.stage.puppet_shot import write_looks

    shared = {"poses": options.poses, "looks": options.looks, "sculpted": options.sculpted}
    keep_order(options.folder, shared, "*/truth.roto.json", {"sculpted": False})
    for k in range(options.characters):
        tell("characters", k, options.characters)
        if not (options.folder / f"{options.seed + k:06d}_{options.looks - 1}" / "truth.roto.json").exists():
            write_looks(
                options.folder,
                options.seed + k,
                poses=options.poses,
                looks=options.looks,
                sculpted=options.sculpted,
            )
    return f"{options.characters * options.looks} shots"


def _make_plates(options: argparse.Namespace, tell: StageProgress) -> str:
    from rotopaint_ai.stage.crowd_plates import make_plates

    tell_plates = partial(tell, "plates")
    faces = make_plates(options.folder, options.count, seed=options.seed, workers=options.workers, progress=tell_plates)
    return f"{faces} faces"


def _make_sample(options: argparse.Namespace, tell: StageProgress) -> str:
    from rotopaint_ai.stage.puppet_shot import write_sample

    write_sample(options.folder, progress=partial(tell, "frames"))
    return "the sample shot"


def main() -> int:
    """Run the command; returns 0 when done, 2 when something is missing or wrong, 130 when stopped."""
    options = _arguments()
    work = {
        "dataset": _dataset,
        "shot": _make_shot,
        "seams": _make_seams,
        "plates": _make_plates,
        "sample": _make_sample,
    }
    try:
        with open_sink(events=False, cancel=Cancel()) as sink:
            made = work[options.verb](options, lambda what, done, total: sink(_progress_event(what, done, total)))
    except ImportError as error:
        _print_error(f"the stage needs {error.name}: pip install 'rotopaint-ai[train]'")
        return 2
    except (RotopaintError, ValueError) as error:
        _print_error(str(error))
        return 2
    except KeyboardInterrupt:
        _print_error("stopped; the same command makes the missing files")
        return 130
    _print_error(f"{made} in {options.folder}")
    return 0


def _progress_event(what: str, done: int, total: int) -> Event:
    return Event("progress", {"stage": what, "share": round(done / max(1, total), 4)})


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
