"""Fit the numbers of `rotopaint_ai/seams/light_table.py`: what in a matte is seam and what is face.

    python benchmarks/fit_seam_light.py SHOT... [--steps 20000] [--write rotopaint_ai/seams/light_table.py]

A SHOT is a folder of plate.####, clean.#### and seam.#### pictures with truth.roto.json; the puppet stage writes such
shots (`rotopaint_ai.stage.shot.write_shot`), and so do others. Shots named test* are refused.
Every frame is used at several sizes, with the matte grown and the curve misplaced at random, colours swapped and
contrast changed, so that the function learns seams and not one face.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from rotopaint_ai.exchange import document
from rotopaint_ai.seams import cleanplate, light
from rotopaint_ai.shapes import bezier

Array = np.ndarray[Any, Any]
Shot = tuple[Array, Array, Array, list[tuple[Array, float]]]
SIZES = (0.75, 1.0, 1.0, 1.5, 2.2)


def read_linear(path: Path) -> Array:
    """A picture as linear RGB float32."""
    if path.suffix == ".exr":
        import OpenImageIO as oiio

        return np.asarray(oiio.ImageInput.open(str(path)).read_image(format="float"), np.float32)[..., :3]
    values = cv2.imread(str(path), cv2.IMREAD_COLOR)[..., ::-1].astype(np.float32) / 255.0
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4).astype(np.float32)


def frames_of(folder: Path, every: int) -> Iterator[Shot]:
    """Plate, clean, coverage and seam curves of every so many frames of a shot."""
    truth = document.read(folder / "truth.roto.json")
    plates = (
        sorted(folder.glob("plate.*.jpg")) or sorted(folder.glob("plate.*.exr")) or sorted(folder.glob("plate.*.png"))
    )
    for path in plates[::every]:
        frame = int(path.name.split(".")[1])
        clean = path.with_name(path.name.replace("plate", "clean"))
        if not clean.exists():
            continue
        seam = cv2.imread(str(folder / f"seam.{frame:04d}.png"), cv2.IMREAD_UNCHANGED)
        curves = [
            (bezier.flatten(np.asarray(shape.at(frame), float), False, 0.05), 0.5 * (shape.width_px or 4.0))
            for shape in truth.shapes
            if shape.role == "seam" and not shape.closed and shape.is_visible(frame) and shape.keys
        ]
        yield read_linear(path), read_linear(clean), seam if seam.ndim == 2 else seam[..., 0], curves


def resized(image: Array, size: float) -> Array:
    """A picture at another size."""
    how = cv2.INTER_AREA if size < 1 else cv2.INTER_CUBIC
    return image if size == 1 else cv2.resize(image, None, fx=size, fy=size, interpolation=how)


def misplaced(line: Array, rng: np.random.Generator, reach: float) -> Array:
    """The curve, wandering off by up to `reach` pixels as a predicted one does."""
    knots = rng.uniform(-reach, reach, (max(2, len(line) // 40), 2))
    at = np.linspace(0, len(knots) - 1, len(line))
    return line + np.stack([np.interp(at, np.arange(len(knots)), knots[:, k]) for k in (0, 1)], 1)


def grooved(clean: Array, rng: np.random.Generator) -> Shot:
    """A made-up seam across a picture: groove, bevels lit and dark, wandering along a random curve.

    Both pictures get new grain, so that grain is told from seam as well.
    """
    height, width = clean.shape[:2]
    n_knots = int(rng.integers(3, 8))
    knots = np.stack([np.linspace(0.08, 0.92, n_knots) * width, rng.uniform(0.25, 0.75, n_knots) * height], 1)
    fine = np.linspace(0, n_knots - 1, 500)
    line = np.stack([np.interp(fine, np.arange(n_knots), knots[:, k]) for k in (0, 1)], 1)
    line = cv2.GaussianBlur(line, (1, 151), float(rng.uniform(3.0, 25.0)), borderType=cv2.BORDER_REPLICATE)
    if rng.random() < 0.5:
        line = line[:, ::-1] * (width / height, height / width)
    line = np.ascontiguousarray(line)
    column, across = nearest(line, (height, width))

    def along(low: float, high: float) -> Array:
        values = rng.uniform(low, high, int(rng.integers(2, 14)))
        return np.interp(column, np.linspace(0, len(line), len(values)), values)

    wander = float(rng.choice([0.0, 0.5, 1.5]))
    middle = across + along(-wander, wander)
    gap, soft = along(0.2, rng.uniform(0.4, 4.0)), float(rng.uniform(0.3, 2.0))
    half = 0.5 * (erf((middle + gap / 2) / soft) - erf((middle - gap / 2) / soft))
    depth = np.log(1.0 - along(0.0, rng.uniform(0.3, 0.98)) * half)
    bevel = float(rng.uniform(0.5, 7.0))
    for sign in (-1.0, 1.0):
        ramp = np.clip(1.0 - (sign * middle - gap / 2) / bevel, 0.0, 1.0) * (sign * middle > 0)
        depth = depth + along(-0.35, 0.25) * ramp * (1.0 - half)
    step = rng.uniform(-0.15, 0.15) if rng.random() < 0.25 else 0.0
    reach = float(gap.max()) / 2 + bevel + 1.0
    tint = np.exp(rng.normal(0.0, 0.08, 3)) ** np.sign(depth)[..., None]
    seam = np.exp(depth[..., None] * tint + step * np.sign(middle)[..., None] / 2)
    true = clean * np.exp(step * np.clip(across / reach, -1, 1) / 2)[..., None]
    grain = 1.0 + float(rng.choice([0.0, 0.01, 0.03])) * rng.standard_normal(clean.shape)
    cover = 255.0 * (np.abs(across) < reach)
    return clean * seam * grain, true * grain, cover.astype(np.uint8), [(line, reach)]


def nearest(line: Array, size: tuple[int, int]) -> tuple[Array, Array]:
    """For every pixel, the nearest vertex of a line and the signed distance across it."""
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5
    seeds = np.full(size, 255, np.uint8)
    owner = np.zeros(size, np.intp)
    at = np.clip(np.floor(line[:, ::-1]).astype(int), 0, np.array(size) - 1)
    seeds[at[:, 0], at[:, 1]] = 0
    owner[at[:, 0], at[:, 1]] = np.arange(len(line))
    _, labels = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    table = np.zeros(labels.max() + 1, np.intp)
    table[labels[seeds == 0]] = owner[seeds == 0]
    vertex = table[labels]
    tangent = np.gradient(line, axis=0)
    tangent /= np.hypot(*tangent.T)[:, None] + 1e-9
    dx, dy = columns - line[vertex, 0], rows - line[vertex, 1]
    return vertex.astype(float), dy * tangent[vertex, 0] - dx * tangent[vertex, 1]


def erf(x: Array) -> Array:
    """About the error function (a logistic within 0.02)."""
    return np.tanh(1.2025 * x)


def covered(seam: Array, rng: np.random.Generator) -> Array:
    """The true coverage, grown by up to 3 px."""
    grow = int(rng.integers(0, 4))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * grow + 1, 2 * grow + 1))
    return cv2.dilate(seam.astype(np.uint8), disc) > 0


def strokes(lines: list[tuple[Array, float]], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A matte of one width along each curve, as it is drawn from predicted curves: from just enough to far too wide."""
    hole = np.zeros(shape, bool)
    wider, more = rng.uniform(0.9, 1.5), rng.uniform(0.0, 4.0)
    for line, half in lines:
        seeds = np.full(shape, 255, np.uint8)
        cv2.polylines(seeds, [np.rint(line * 8 - 4).astype(np.int32)], False, 0, shift=3)
        hole |= cv2.distanceTransform(seeds, cv2.DIST_L2, 5) <= half * wider + more
    return hole


def rows_of(shot: Shot, rng: np.random.Generator, size: float, share: float) -> tuple[Array, ...] | None:
    """Features, own light, banks' light, true light and log gain of some of a frame's matte samples."""
    plate, clean, seam, curves = shot
    swap, power, gain = rng.permutation(3), rng.uniform(0.75, 1.3), np.exp(rng.uniform(-1.0, 1.0))
    plate, clean = (
        np.ascontiguousarray(gain * resized(np.maximum(x, 0) ** power, size)[..., swap], dtype=np.float32)
        for x in (plate, clean)
    )
    if rng.random() < 0.5:  # out of focus: the seam spreads beyond its own pixels
        sigma = float(rng.uniform(0.4, 1.8))
        plate, clean = (cv2.GaussianBlur(x, (0, 0), sigma) for x in (plate, clean))
    lines = [(misplaced(line * size, rng, rng.uniform(0, 1.8)), half * size) for line, half in curves]
    hole = covered(resized(seam.astype(np.float32), size) > 8, rng)
    if rng.random() < 0.6:
        hole = strokes(lines, hole.shape, rng)
    window = cleanplate._window(hole.astype(np.float32), lines)
    if window is None:
        return None
    lines = [(line - (window[1].start, window[0].start), half) for line, half in lines]
    plate, clean, hole = plate[window].copy(), clean[window].copy(), hole[window].copy()
    scene = cleanplate.lay(plate, hole, lines)
    if scene is None:
        return None
    ribbon = scene.ribbon
    known = light.describe(scene.light_TSC, scene.hole_TS, ribbon.own_TS)
    true = np.log(np.maximum(ribbon.sample(ribbon.shrink(clean)), 0) + scene.floor)
    wanted = (scene.hole_TS & ribbon.inside_TS)[ribbon.own_TS] & (rng.random(known.own.shape[1]) < share)
    lit = [x[wanted] for x in (known.features.T, known.own.T, known.face.T, known.banks.T, true[ribbon.own_TS])]
    return *lit, np.full((int(wanted.sum()), 1), np.log(gain))


def samples(folder: Path, every: int, rng: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Rows to fit, of a shot's own seams and of seams made up on its clean frames."""
    for shot in frames_of(folder, every):
        made_up = [grooved(shot[1], rng) for _ in range(3)]
        for one, sizes in ((shot, SIZES), *((m, (1.0,)) for m in made_up)):
            for size in sizes:
                rows = rows_of(one, rng, size, 0.35)
                if rows is not None:
                    yield rows


def fit(parts: list[Array], steps: int, seed: int, width: int) -> light.Table:
    """Least squares of display-referred light, by Adam."""
    features, own, face, banks, true, gain = (torch.from_numpy(np.concatenate(p).astype(np.float32)) for p in parts)
    mean, spread = features.mean(0), features.std(0) + 1e-3
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(light.N_FEATURES, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, light.N_ANSWERS),
    )
    with torch.no_grad():
        net[-1].weight.mul_(0.1)
    optimiser = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, steps)
    for step in range(steps):
        i = torch.randint(0, len(features), (4096,))
        answer = net((features[i] - mean) / spread)
        shares = torch.softmax(answer[:, :3], 1)
        got = shares[:, :1] * own[i] + shares[:, 1:2] * face[i] + shares[:, 2:] * banks[i] + answer[:, 3:]
        error = (torch.exp((got - gain[i]) / 2.4) - torch.exp((true[i] - gain[i]) / 2.4)) ** 2
        loss = error.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 1000 == 999:
            sys.stderr.write(f"\r{step + 1}/{steps} {float(loss.detach()):.5f}")
    sys.stderr.write("\n")
    layers = [net[k] for k in (0, 2, 4)]
    return light.Table(
        mean.numpy(),
        1.0 / spread.numpy(),
        tuple(layer.weight.detach().numpy().T.copy() for layer in layers),
        tuple(layer.bias.detach().numpy().copy() for layer in layers),
    )


def text_of(table: light.Table, command: str) -> str:
    """The table as a Python module."""
    arrays = [table.mean, table.scale, *(x for pair in zip(table.weights, table.biases, strict=True) for x in pair)]
    packed = base64.b85encode(b"".join(a.astype("<f4").tobytes() for a in arrays)).decode()
    lines = "\n".join(f'    "{packed[k : k + 110]}"' for k in range(0, len(packed), 110))
    units = table.weights[0].shape[1]
    return (
        f'"""Numbers of the fitted function in `light.py`, written by `{command}`; not to be edited by hand."""\n\n'
        "from __future__ import annotations\n\n"
        "from rotopaint_ai.seams.light import Table, unpack\n\n"
        f"UNITS = {units}\n"
        f"NUMBERS = (\n{lines}\n)\n"
        "TABLE: Table = unpack(NUMBERS, UNITS)\n"
    )


def main() -> int:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path, nargs="+")
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--every", type=int, default=2, help="use every so many frames (2: shots on twos)")
    parser.add_argument("--units", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    refused = [s.name for s in options.shots if s.name.startswith("test")]
    if refused:
        parser.error(f"{refused[0]}: test shots are for tests; name training shots")
    torch.set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    found = [row for shot in options.shots for row in samples(shot, options.every, rng)]
    sys.stderr.write(f"{sum(len(row[0]) for row in found)} samples of {len(options.shots)} shots\n")
    table = fit([list(p) for p in zip(*found, strict=True)], options.steps, options.seed, options.units)
    if options.write:
        options.write.write_text(text_of(table, "benchmarks/fit_seam_light.py"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
