"""The error against the number of rotoscoped frames: when does more roto no longer help?

    python -m benchmarks.learning_curve DATASET... --out PACK [--shares 10,25,50,100] [--resume]
        [--recipe FILE.yaml] [--set key=value]... [--init PACK]

The same recipe is trained on growing parts of the training frames; each part contains the previous one. All are
evaluated on the same validation frames. Intermediate files are in `PACK.run/curve`. The results are the pack trained on
all frames, and the curve `PACK.run/learning_curve.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.training.data.dataset import Dataset, Sample, join, read_dataset, write_dataset
from rotopaint_ai.training.data.dataset_checks import known_with_landmarks, split_off_validation
from rotopaint_ai.training.evaluation.gate import value_at
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.train import train_pack

SHARES: Final = (0.1, 0.25, 0.5, 1.0)
FEWEST = 4  # fewest frames for a training
# If doubling the frames improves the error by less than either, more frames do not help.
_PAYS_SHARE, _PAYS_PX = 0.05, 0.05
_FIGURES = (
    ("landmarks", ("landmarks_px", "mean")),
    ("seams", ("seams", "px", "mean")),
    ("other shapes", ("other_shapes", "px", "mean")),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One training: the share and the number of frames, and the mean errors in pixels."""

    share: float
    n_frames: int
    errors_px: Mapping[str, float]


def parse_shares(text: str) -> tuple[float, ...]:
    """Parse shares such as `10,25,50,100`, in percent; 100 is added where it is missing. Raises UsageError."""
    try:
        shares = sorted({float(part) / 100 for part in text.split(",")} | {1.0})
    except ValueError as error:
        raise UsageError(f"--shares {text}: wanted percents such as 10,25,50,100") from error
    if shares[0] <= 0 or shares[-1] > 1 or len(shares) < 2:
        raise UsageError(f"--shares {text}: wanted two or more percents above 0 and up to 100, such as 10,25,50,100")
    return tuple(shares)


def spread_order(n: int) -> list[int]:
    """The numbers 0..n-1 in an order in which every prefix is spread evenly over the whole range.

    Source: van der Corput, "Verteilungsfunktionen" (1935): the bits of the position reversed.
    """
    bits = max(1, (n - 1).bit_length())
    reversed_ = (int(f"{at:0{bits}b}"[::-1], 2) for at in range(1 << bits))
    return [at for at in reversed_ if at < n]


def part_of(data: Dataset, share: float) -> Dataset:
    """A share of the training frames, spread over all shots, and all validation frames.

    A frame with a shape comes first, because without one nothing could be trained.
    """
    samples = data.samples
    train = sorted(
        data.rows_of("train").tolist(), key=lambda row: (samples[row].character, samples[row].shot, samples[row].frame)
    )
    count = max(1, round(share * len(train)))
    order = spread_order(len(train))
    known = known_with_landmarks(data)[np.array(train, dtype=np.intp)[order]]
    needed = {order[int(column.argmax())] for column in known.T}
    kept = {train[at] for at in sorted(order, key=lambda at: at not in needed)[:count]}
    rows = [row for row, sample in enumerate(samples) if sample.split != "train" or row in kept]
    return data.subset(np.array(rows, dtype=np.intp))


def with_held_out(data: Dataset) -> Dataset:
    """The data set with fixed validation frames, so that every part is evaluated on the same frames.

    Where the ends of shots are validation frames, they become separate shots.
    """
    if len(data.rows_of("val")):
        return data
    held = split_off_validation(data)
    samples = tuple(replace(s, shot=f"{s.shot} end") if s.split == "val" else s for s in held.samples)
    return replace(held, samples=samples)


def write_part(data: Dataset, folder: Path) -> Path:
    """Write a data set with some samples of another; pictures are linked, or copied where links are not possible."""
    shutil.rmtree(folder, ignore_errors=True)
    samples: list[Sample] = []
    for row, sample in enumerate(data.samples):
        source = data.folders[row]
        if not isinstance(source, Path):
            raise TrainingError(f"data set '{data.name}': lies in shards; a learning curve wants the mined folder")
        name = f"images/{row:06d}{Path(sample.image).suffix}"
        _link(source / sample.image, folder / name)
        samples.append(replace(sample, image=name))
    write_dataset(folder, name=data.name, licence=data.licence, sheet=data.sheet, samples=samples)
    return folder


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


Train = Callable[[Path, Path], Mapping[str, Any]]  # from a data set and the path of its pack to the pack's metrics


def measure(
    datasets: Sequence[str | Path],
    out: Path,
    *,
    train: Train,
    shares: Sequence[float] = SHARES,
    resume: bool = False,
) -> tuple[Point, ...]:
    """Train on each share in turn; the whole comes last and becomes the pack `out`.

    Writes `out`.run/learning_curve.json. `resume` skips finished trainings. Raises: TrainingError where a share has too
    few frames, and the errors of `train`.
    """
    data = with_held_out(join([read_dataset(source) for source in datasets]))
    work = out.with_name(out.name + ".run") / "curve"
    points: list[Point] = []
    for share in shares:
        part = part_of(data, share)
        n_frames = len(part.rows_of("train"))
        if n_frames < FEWEST:
            raise TrainingError(
                f"data set '{data.name}': {share:.0%} of it are {n_frames} frames; wanted {FEWEST} or more: give "
                "larger --shares"
            )
        points.append(_curve_point(part, share, out, work, train, resume=resume))
        _write_curve(work.parent, data.name, points)
    return tuple(points)


def _curve_point(part: Dataset, share: float, out: Path, work: Path, train: Train, *, resume: bool) -> Point:
    name = f"{share * 100:g}"
    done = work / f"{name}.json"
    if resume and done.is_file():
        content = json.loads(done.read_text(encoding="utf-8"))
        return Point(share, content["n_frames"], content["errors_px"])
    metrics = train(write_part(part, work / f"{name}.data"), out if share == 1 else work / name)
    errors = {label: float(value) for label, path in _FIGURES if (value := value_at(metrics, *path)) is not None}
    point = Point(share, len(part.rows_of("train")), errors)
    write_json(done, {"n_frames": point.n_frames, "errors_px": errors})
    return point


def advice(points: Sequence[Point]) -> str:
    """One sentence about the gain of the last step, and the expected gain of the next."""
    for name in ("seams", "landmarks"):
        known = [point for point in points if name in point.errors_px]
        if len(known) >= 2:
            break
    else:
        return "too few trainings to tell"
    (n_before, before), (n_last, last) = ((point.n_frames, point.errors_px[name]) for point in known[-2:])
    change = f"from {n_before} to {n_last} frames {name} went from {before:.2f} to {last:.2f} px"
    if before - last < max(_PAYS_PX, _PAYS_SHARE * before):
        return f"{change}: more roto of this kind no longer pays; other poses and light may"
    return f"{change}: growing by the same factor again may bring about {last * (1 - last / before):.2f} px more"


def table(points: Sequence[Point]) -> str:
    """The curve as text."""
    names = [name for name, _ in _FIGURES if any(name in point.errors_px for point in points)]
    head = f"{'share':>6} {'frames':>7}" + "".join(f"{name + ' px':>18}" for name in names)
    rows = [
        f"{point.share:>6.0%} {point.n_frames:>7d}"
        + "".join(f"{point.errors_px[name]:>18.3f}" if name in point.errors_px else f"{'-':>18}" for name in names)
        for point in points
    ]
    return "\n".join([head, *rows, advice(points)])


def _write_curve(folder: Path, name: str, points: Sequence[Point]) -> None:
    content = [{"share": p.share, "frames": p.n_frames, "errors_px": dict(p.errors_px)} for p in points]
    write_json(folder / "learning_curve.json", {"dataset": name, "points": content, "advice": advice(points)})


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shares", default="10,25,50,100", help="percents")
    parser.add_argument("--recipe")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--init")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(words)

    def train_part(data: Path, out: Path) -> Mapping[str, Any]:
        how = {"recipe": given.recipe, "overrides": tuple(given.set), "init": given.init, "resume": given.resume}
        return train_pack(TrainOptions([data], out, **how)).metrics

    shares = parse_shares(given.shares)
    print(table(measure(given.datasets, given.out, train=train_part, shares=shares, resume=given.resume)))


if __name__ == "__main__":
    main()
