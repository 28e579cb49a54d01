"""Make the shipped pack from scratch: render its data, train its networks one after another, write its card.

    python scripts/shipped_pack.py OUT [--share 0.01] [--workers N] [--set key=value]...

OUT gets the data and all intermediate packs; OUT/puppet is the final pack. It takes some twelve hours of one core.
Existing results are not made again, and a stopped training resumes from its checkpoint; another version of this script
wants another OUT. `--share` renders and trains
only this share, `--workers` is the number of rendering processes, `--set` changes the recipe of the landmark network.

Seeds are fixed, and trainings are limited by steps on one thread, not by minutes, so that two runs on one machine give
the same weights.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

from rotopaint_ai.inference.pack import CARD, DETECTOR, FILL, SEAM, SEAM_FEATURES, SEGMENTATION, load_card, write_card

NAME = "puppet"
STAGE = (sys.executable, "-m", "rotopaint_ai.stage")
TRAIN = (sys.executable, "-m", "rotopaint_ai", "train")


class Faces(NamedTuple):
    """A data set of faces.

    Its fields are the number of characters, the seed, the factor by which heads turn further than in a talking shot,
    the side of a crop in pixels, the number of additional pictures of each with other seams, whether objects stand
    in front of the faces, and whether faces are sculpted."""

    characters: int
    seed: int
    reach: float
    size: int = 320
    looks: int = 0
    fronts: bool = False
    sculpted: bool = False


class Looks(NamedTuple):
    """Shots for the fill: characters, seed, poses and looks of each."""

    characters: int
    seed: int
    poses: int = 2
    looks: int = 4


class Training(NamedTuple):
    """A training of the landmark network that continues the previous one, on a number of the data sets."""

    steps: int
    data: int
    settings: tuple[str, ...] = ()


FACES = (
    Faces(1000, 10000, 1.0),
    Faces(242, 40000, 1.0),
    Faces(450, 41000, 1.4),
    Faces(300, 42000, 1.4),
    Faces(366, 43000, 1.4),
    Faces(600, 44000, 1.4),
)
_FIRST = ("optimiser=adamw", "learning_rate=0.003")
_NEXT = ("optimiser=adamw", "learning_rate=0.002", "small_share=0.4")
LANDMARKS = (Training(6195, 1, _FIRST), Training(7200, 4, _NEXT), Training(6197, 6, (*_NEXT, "prior=true")))
SEAM_FACES = Faces(130, 160000, 1.3, size=512, looks=2)
SEAM_STEPS = 4500
FEATURE_FACES = tuple(
    Faces(characters, seed, 1.3, size=512, looks=2)
    for characters, seed in ((40, 241000), (40, 242000), (40, 243000), (30, 244000), (30, 245000), (30, 246000))
)
FEATURE_STEPS, FEATURE_SETTINGS = 5400, ("learning_rate=0.004",)
SCULPTED_FACES = tuple(
    Faces(characters, seed, 1.3, size=512, looks=2, sculpted=True) for characters, seed in ((62, 301000), (64, 302000))
)
SCULPTED_STEPS, SCULPTED_SETTINGS = 3000, ("learning_rate=0.004", "kept=0.5")
MORE_FACES = (
    *SCULPTED_FACES,
    *(Faces(100, seed, 1.3, size=512, looks=2, sculpted=True) for seed in (304000, 305000)),
)
MORE_STEPS = 2400
LOOKS = (
    Looks(44, 30000),
    Looks(26, 31000),
    Looks(40, 120000, poses=3, looks=3),
    Looks(300, 130000, poses=2, looks=3),
    Looks(60, 190000, poses=2, looks=3),
)
FILL_STEPS = 20000
ASTRAY_LOOKS = (Looks(150, 200000, poses=1, looks=3), Looks(150, 210000, poses=1, looks=3))
ASTRAY_STEPS, ASTRAY_SETTINGS = 4000, ("learning_rate=0.002", "astray=0.5", "kept=0.5")
PLATES, PLATES_SEED, DETECTOR_STEPS = 79, 50000, 450
FRONT_FACES = Faces(270, 170000, 1.3, size=512, looks=1, fronts=True)
FRONT_STEPS, FRONT_SETTINGS = 5000, ("batch=8", "learning_rate=0.002", "eval_every=1000")


class Step(NamedTuple):
    """A command, and the file that exists once it is done; None where the command itself skips finished work."""

    command: tuple[str, ...]
    made: Path | None = None


def all_steps(out: Path, share: float = 1.0, changes: Sequence[str] = (), workers: int = 1) -> Iterator[Step]:
    """All steps in order; `workers` processes render."""
    sets = {out / "faces" / str(faces.seed): faces for faces in FACES}
    yield from (_face_step(folder, faces, share, workers) for folder, faces in sets.items())
    init = "none"
    for at, training in enumerate(LANDMARKS, 1):
        pack = out / (NAME if at == len(LANDMARKS) else f"{NAME}{at}")
        used = list(sets)[: training.data]
        words = {"recipe": "shipped", "init": init, "name": NAME, "licence": "Apache-2.0"}
        yield _train(used, pack, words, training.steps, share, (*training.settings, *changes), pack / CARD)
        init = str(pack)
    pack = Path(init)
    yield from _seam_steps(out, pack, share, workers)
    yield from _fill_steps(out, pack, share)
    plates = out / "plates"
    size = {"count": _part(PLATES, share), "seed": PLATES_SEED, "workers": workers}
    yield Step((*STAGE, "plates", str(plates), *_options(size)))
    used, words = [plates, next(iter(sets))], {"recipe": "detector", "init": init}
    yield _train(used, pack, words, DETECTOR_STEPS, share, (), pack / DETECTOR)
    fronts = out / "faces" / str(FRONT_FACES.seed)
    yield _face_step(fronts, FRONT_FACES, share, workers)
    words = {"recipe": "segmentation", "init": init}
    yield _train([fronts], pack, words, FRONT_STEPS, share, FRONT_SETTINGS, pack / SEGMENTATION)


def _face_step(folder: Path, faces: Faces, share: float, workers: int) -> Step:
    size = {**faces._asdict(), "characters": _part(faces.characters, share), "workers": workers}
    flags = [f"--{name}" for name in ("fronts", "sculpted") if size.pop(name)]
    return Step((*STAGE, "dataset", str(folder), *_options(size), *flags), folder / "samples.jsonl")


def _seam_steps(out: Path, pack: Path, share: float, workers: int) -> Iterator[Step]:
    """A training on strips alone, one from there with features, on other faces: on its own it would trust them too
    much; and two on sculpted faces, each of which keeps half of what it begins with."""
    words, first = {"recipe": "seam", "init": "none"}, out / "seam" / SEAM
    second, third = (out / "seam" / name / SEAM for name in ("featured", "sculpted"))
    seams = out / "faces" / str(SEAM_FACES.seed)
    yield _face_step(seams, SEAM_FACES, share, workers)
    yield _train([seams], first, words, SEAM_STEPS, share, ("features=false",), first)
    for table, steps, given, start, made in (
        (FEATURE_FACES, FEATURE_STEPS, FEATURE_SETTINGS, first, second),
        (SCULPTED_FACES, SCULPTED_STEPS, SCULPTED_SETTINGS, second, third),
        (MORE_FACES, MORE_STEPS, SCULPTED_SETTINGS, third, pack),
    ):
        sets = {out / "faces" / str(faces.seed): faces for faces in table}
        yield from (_face_step(folder, faces, share, workers) for folder, faces in sets.items())
        done = made / SEAM_FEATURES if made == pack else made
        yield _train(sets, made, words, steps, share, (*given, f"start={start}"), done)


def _fill_steps(out: Path, pack: Path, share: float) -> Iterator[Step]:
    """A training on curves near their seams, and one from there on curves astray."""
    words, first = {"recipe": "fill", "init": "none"}, out / "fill" / FILL
    shots = yield from _film(out, LOOKS, share)
    yield _train(shots, first, words, FILL_STEPS, share, (), first)
    shots = yield from _film(out, ASTRAY_LOOKS, share)
    settings = (*ASTRAY_SETTINGS, f"start={first}")
    yield _train(shots, pack, words, ASTRAY_STEPS, share, settings, pack / FILL)


def _film(out: Path, tables: Iterable[Looks], share: float) -> Generator[Step, None, list[Path]]:
    shots = {out / "seams" / str(looks.seed): looks for looks in tables}
    for folder, looks in shots.items():
        size = {**looks._asdict(), "characters": _part(looks.characters, share)}
        yield Step((*STAGE, "seams", str(folder), *_options(size)))
    return list(shots)


def _train(
    data: Iterable[Path],
    out: Path,
    words: dict[str, str],
    steps: int,
    share: float,
    settings: Sequence[str],
    made: Path,
) -> Step:
    all_settings = ("minutes=null", f"steps={_part(steps, share)}", "threads=1", *settings)
    sets = [word for setting in all_settings for word in ("--set", setting)]
    options = ("--resume", "--out", str(out), *_options({**words, "strategy": "single"}), *sets)
    return Step((*TRAIN, *map(str, data), *options), made)


def _part(whole: int, share: float) -> int:
    return max(2, round(whole * share))


def _options(values: dict[str, object] | dict[str, str]) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the remaining steps; returns the exit code of the first command that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    with chdir(given.out):  # so that a card names no folder of this machine
        for step in all_steps(Path(), given.share, given.set, given.workers):
            if step.made is None or not step.made.is_file():
                print("$", shlex.join(step.command[1:]), flush=True)
                if code := subprocess.run(step.command).returncode:
                    return code
        pack = Path(NAME)
        card = load_card(pack)
        card["training"]["command"] = shlex.join(_own_command(given.share, given.set))
        write_card(pack, {**card, "default": True})
    return 0


def _own_command(share: float, changes: Sequence[str]) -> list[str]:
    """The words that make the same pack again; the number of processes makes no difference."""
    part = [] if share == 1.0 else ["--share", str(share)]
    return ["python", "scripts/shipped_pack.py", "OUT", *part, *(word for each in changes for word in ("--set", each))]


if __name__ == "__main__":
    sys.exit(main())
