"""Peers: other installed inpainting tools, which get the same crop and the same matte as our methods.

Most peers support 8 bits only: they get sRGB codes, and values above 1 are lost. The two methods of OpenCV and that of
OpenImageIO are always available. scikit-image and OpenCV's contrib (xphoto) are not dependencies of this product; they
are run in this Python or in another one (`--peers PYTHON`). G'MIC is run as its command-line program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import OpenImageIO
from numpy.typing import NDArray

from rotopaint_ai.bench.clean_cases import Sight, codes
from rotopaint_ai.plates.colour import linearise

Array = NDArray[Any]

RADIUS = 3.0
_GMIC = {"gmic inpaint_pde": ("inpaint_pde[0]", "[1],75%,2,15")}
_GMIC_SLOW = {
    "gmic inpaint_matchpatch": ("inpaint_matchpatch[0]", "[1]"),
    "gmic inpaint_morpho": ("inpaint_morpho[0]", "[1]"),
}
_GMIC_ROUNDS = 2  # codes by which G'MIC may change pixels outside the hole
_OTHER_PYTHON = """
import sys, time, numpy as np
given = np.load(sys.argv[1]); out = {}
wanted = sys.argv[3].split(",")
def biharmonic(plate, hole):
    from skimage.restoration import inpaint_biharmonic
    light = inpaint_biharmonic(plate.astype(np.float32) / 255, hole > 0, channel_axis=-1)
    return np.clip(np.rint(light * 255), 0, 255).astype(np.uint8)
def fsr(quality):
    def work(plate, hole):
        import cv2
        filled = np.zeros_like(plate)
        cv2.xphoto.inpaint(plate, (1 - hole) * 255, filled, getattr(cv2.xphoto, quality))
        return filled
    return work
def shiftmap(plate, hole):
    import cv2
    lab = cv2.cvtColor(plate, cv2.COLOR_RGB2Lab)
    filled = np.zeros_like(lab)
    cv2.xphoto.inpaint(lab, (1 - hole) * 255, filled, cv2.xphoto.INPAINT_SHIFTMAP)
    return cv2.cvtColor(filled, cv2.COLOR_Lab2RGB)
ways = {"biharmonic": biharmonic, "fsr-fast": fsr("INPAINT_FSR_FAST"), "fsr-best": fsr("INPAINT_FSR_BEST")}
ways["shiftmap"] = shiftmap
try:
    import cv2
    cv2.setNumThreads(1)
except ImportError:
    pass
for name in wanted:
    for k in range(int(given["n"])):
        try:
            start = time.process_time()
            out[f"{name} {k}"] = ways[name](given[f"plate{k}"], given[f"hole{k}"])
            out[f"{name} {k} ms"] = 1e3 * (time.process_time() - start)
        except (ImportError, AttributeError) as error:
            out[f"{name} refused"] = str(error)
            break
np.savez(sys.argv[2], **out)
"""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """The result of one peer: light (H, W, 3) and processor milliseconds per frame, or the reason why it failed."""

    name: str
    lights: tuple[Array, ...] = ()
    ms: tuple[float, ...] = ()
    refused: str | None = None


def ask(sights: Sequence[Sight], *, python: str | None, quick: bool = False) -> list[PeerResult]:
    """Run every peer on every frame with the true region as matte; `quick` leaves out the slow peers."""
    eight = [_ask_each(name, way, sights) for name, way in _EIGHT_BIT.items()]
    names = ("biharmonic", "fsr-fast", *(() if quick else ("fsr-best", "shiftmap")))
    commands = _GMIC if quick else {**_GMIC, **_GMIC_SLOW}
    return [
        *eight,
        _each_float("oiio fillholes", _fill_holes, sights),
        *_ask_python(names, sights, python),
        *(_ask_gmic(name, words, sights) for name, words in commands.items()),
        _each_flow(sights),
    ]


def _telea_in_hole(plate: Array, hole: Array) -> Array:
    return np.asarray(cv2.inpaint(plate, hole, RADIUS, cv2.INPAINT_TELEA))


def _navier_stokes(plate: Array, hole: Array) -> Array:
    return np.asarray(cv2.inpaint(plate, hole, RADIUS, cv2.INPAINT_NS))


_EIGHT_BIT: Mapping[str, Callable[[Array, Array], Array]] = {"telea": _telea_in_hole, "navier-stokes": _navier_stokes}


def _ask_each(name: str, way: Callable[[Array, Array], Array], sights: Sequence[Sight]) -> PeerResult:
    """Run an 8-bit peer on each frame; its result replaces only the pixels inside the hole."""
    lights, times = [], []
    for sight in sights:
        plate = codes(sight.plate)
        start = _clock()
        filled = way(plate, sight.hole)
        times.append(1e3 * (_clock() - start))
        lights.append(_fill_inside(sight, linearise(filled, "sRGB")))
    return PeerResult(name, tuple(lights), tuple(times))


def _clock() -> float:
    """Processor seconds of this process and of its finished child processes."""
    return sum(os.times()[:4])


def _fill_inside(sight: Sight, light: Array) -> Array:
    return np.where(sight.hole[..., None] > 0, light, sight.plate).astype(np.float32)


def _each_float(name: str, way: Callable[[Array, Array], Array], sights: Sequence[Sight]) -> PeerResult:
    lights, times = [], []
    for sight in sights:
        start = time.process_time()
        light = way(sight.plate, sight.hole)
        times.append(1e3 * (time.process_time() - start))
        lights.append(_fill_inside(sight, light))
    return PeerResult(name, tuple(lights), tuple(times))


def _fill_holes(plate: Array, hole: Array) -> Array:
    """Fill the hole by OpenImageIO's push-pull, which fills pixels without alpha."""
    kept = (hole == 0).astype(np.float32)[..., None]
    image = OpenImageIO.ImageBuf(np.ascontiguousarray(np.concatenate([plate * kept, kept], 2)))
    spec = image.specmod()
    spec.channelnames, spec.alpha_channel = ("R", "G", "B", "A"), 3
    filled = OpenImageIO.ImageBufAlgo.fillholes_pushpull(image)
    return np.asarray(filled.get_pixels(OpenImageIO.FLOAT), np.float32)[..., :3]


def _ask_python(names: Sequence[str], sights: Sequence[Sight], python: str | None) -> list[PeerResult]:
    """Run the peers that need scikit-image or xphoto, in another Python or in this one."""
    import sys

    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays = {f"plate{k}": codes(s.plate) for k, s in enumerate(sights)}
        arrays |= {f"hole{k}": s.hole for k, s in enumerate(sights)}
        np.savez(given, n=np.array(len(sights)), **arrays)  # type: ignore[arg-type]  # wrong stub
        command = [python or sys.executable, "-c", _OTHER_PYTHON, str(given), str(got), ",".join(names)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return [PeerResult(name, refused=why) for name in names]
        with np.load(got) as found:
            return [_peer_result(name, sights, dict(found)) for name in names]


def _peer_result(name: str, sights: Sequence[Sight], found: Mapping[str, Array]) -> PeerResult:
    if f"{name} refused" in found:
        return PeerResult(name, refused=f"not installed ({found[f'{name} refused']})")
    lights = [_fill_inside(s, linearise(found[f"{name} {k}"], "sRGB")) for k, s in enumerate(sights)]
    return PeerResult(name, tuple(lights), tuple(float(found[f"{name} {k} ms"]) for k in range(len(sights))))


def _ask_gmic(name: str, command: tuple[str, str], sights: Sequence[Sight]) -> PeerResult:
    """Run a fill of G'MIC as a program; its milliseconds include the program's start and its files."""
    program = shutil.which("gmic")
    if program is None:
        return PeerResult(name, refused="not installed (no program 'gmic' on the path)")
    return _ask_each(name, lambda plate, hole: _gmic((program, *command), plate, hole), sights)


def _gmic(words: tuple[str, str, str], plate: Array, hole: Array) -> Array:
    """The picture that G'MIC returns. Where it fails and returns black, it is run again with a wider border."""
    filled = plate
    for rim in range(4):
        wider = cv2.copyMakeBorder(plate, 0, rim, 0, rim, cv2.BORDER_REPLICATE)
        shut = cv2.copyMakeBorder(hole, 0, rim, 0, rim, cv2.BORDER_CONSTANT)
        filled = _gmic_once(words, wider, shut)[: hole.shape[0], : hole.shape[1]]
        if np.abs(filled.astype(np.int16) - plate)[hole == 0].max(initial=0) <= _GMIC_ROUNDS:
            break
    return filled


def _gmic_once(words: tuple[str, str, str], plate: Array, hole: Array) -> Array:
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("plate.png", "hole.png", "out.png")]
        cv2.imwrite(paths[0], plate[..., ::-1])
        cv2.imwrite(paths[1], hole * np.uint8(255))
        line = [words[0], "-v", "-1", paths[0], paths[1], *words[1:], "keep[0]", "-o", paths[2]]
        subprocess.run(line, check=True, capture_output=True)
        filled = cv2.imread(paths[2], cv2.IMREAD_COLOR)
    return plate if filled is None else np.ascontiguousarray(filled[..., ::-1])


def _each_flow(sights: Sequence[Sight]) -> PeerResult:
    """Fill each frame from clean pixels of its neighbour frames along optical flow (DIS); Telea fills the rest."""
    name = "flow-borrowed neighbours"
    if len(sights) < 2:
        return PeerResult(name, refused="needs a sequence")
    lights, times = [], []
    for k, sight in enumerate(sights):
        near = [sights[n] for n in (k - 1, k + 1) if 0 <= n < len(sights)]
        start = time.process_time()
        filled = borrow(sight, near)
        times.append(1e3 * (time.process_time() - start))
        lights.append(_fill_inside(sight, linearise(filled, "sRGB")))
    return PeerResult(name, tuple(lights), tuple(times))


def borrow(sight: Sight, near: Sequence[Sight]) -> Array:
    """A frame as 8-bit codes, its hole filled from neighbours along flow, and by Telea where no neighbour is clean."""
    plate, left = _telea_in_hole(codes(sight.plate), sight.hole), sight.hole.copy()
    make: Any = getattr(cv2, "DISOpticalFlow_create")  # noqa: B009 - the stubs of some wheels lack it
    flow_of = make(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    rows, columns = np.mgrid[: left.shape[0], : left.shape[1]].astype(np.float32)
    for other in near:
        window = _Window.of(other, sight)
        flow = flow_of.calc(_grey_plate(plate), _grey_plate(_telea_in_hole(window.plate, window.hole)), None)
        x, y = columns + flow[..., 0], rows + flow[..., 1]
        borrowed = cv2.remap(window.plate, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        shut = cv2.remap(window.hole, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=1)
        clean = (left > 0) & (shut == 0)
        plate[clean], left[clean] = borrowed[clean], 0
    return plate


@dataclass(frozen=True, slots=True)
class _Window:
    """Another frame, cut to this frame's crop; pixels outside its own crop count as hole."""

    plate: Array
    hole: Array

    @classmethod
    def of(cls, other: Sight, sight: Sight) -> _Window:
        height, width = sight.hole.shape
        shift = [a - b for a, b in zip(other.origin, sight.origin)]
        matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float32)
        plate = cv2.warpAffine(
            codes(other.plate), matrix, (width, height), flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE
        )
        hole = cv2.warpAffine(other.hole, matrix, (width, height), flags=cv2.INTER_NEAREST, borderValue=1)
        return cls(plate, hole)


def _grey_plate(plate: Array) -> Array:
    return np.asarray(cv2.cvtColor(plate, cv2.COLOR_RGB2GRAY))
