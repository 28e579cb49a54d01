"""One shot, encoded in every format in which a studio stores pictures: movies, single files, shards."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.plates.oiio import save as oiio_save
from rotopaint_ai.sheet import LandmarkSpec, Sheet
from rotopaint_ai.training.data.dataset import Sample, read_picture, write_dataset
from rotopaint_ai.training.data.shards.write import Recoder, pack_dataset

Picture = npt.NDArray[np.uint8]
FPS = 24
QUALITY = 92  # default JPEG quality, which keeps the grain
AS_TRUE = "shards of JPEG, as true as mp4"  # the PSNR of the movie with default keys, which loses grain
PLANES = "shards of planes"  # luma at full size, chroma at half size, as in the movies
RAW = "shards of raw pictures"
CLIPS = "shards of h264 clips"
N_COMPARED = 24


@dataclass(frozen=True, slots=True)
class EncodedShot:
    """An encoded shot: its name in the table, its kind, and its files."""

    name: str
    kind: str  # movie, files, shards
    path: Path
    n_frames: int

    @property
    def files(self) -> list[Path]:
        """Every file that holds pictures."""
        return [self.path] if self.path.is_file() else sorted(p for p in self.path.rglob("*") if p.is_file())

    @property
    def n_bytes(self) -> int:
        """The total size of the files."""
        return sum(path.stat().st_size for path in self.files)


def synthetic_shot(n_frames: int, size: int) -> Iterator[Picture]:
    """A textured shape that moves over a textured ground, with grain: about as hard to compress as a filmed puppet."""
    rng = np.random.default_rng(1)
    ground = _texture(rng, size * 2, 90.0)
    puppet = _texture(rng, size, 140.0)
    mask = np.zeros((size, size, 1), np.float32)
    cv2.ellipse(mask, (size // 2, size // 2), (size // 4, size // 3), 20, 0, 360, 1.0, -1, cv2.LINE_AA)
    for at in range(n_frames):
        x, y = (round(size * (0.4 + 0.3 * np.sin(at / step))) for step in (17.0, 23.0))
        turn = cv2.getRotationMatrix2D((size / 2, size / 2), 20 * np.sin(at / 11.0), 1.0)
        moved, cover = (cv2.warpAffine(part, turn, (size, size)) for part in (puppet, mask))
        picture = ground[y : y + size, x : x + size] * (1 - cover[..., None]) + moved * cover[..., None]
        grain = 3.0 * rng.standard_normal(picture.shape, dtype=np.float32)
        yield np.asarray(np.clip(picture + grain, 0, 255), np.uint8)


def _texture(rng: np.random.Generator, size: int, level: float) -> npt.NDArray[np.float32]:
    coarse = [
        cv2.resize(rng.normal(0, 14.0, (n, n, 3)).astype(np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
        for n in (6, 24, 96)
    ]
    return np.asarray(np.stack(coarse).sum(axis=0) + level, np.float32)


def encode_all(folder: Path, n_frames: int, size: int, only: Sequence[str] = ()) -> list[EncodedShot]:
    """Encode all sources, or those whose name contains one of the texts `only`."""
    makers: list[tuple[str, str, Callable[[Path, Iterator[Picture]], None]]] = [
        ("mp4 h264, default keys", "movie", lambda p, s: _movie(p.with_suffix(".mp4"), s, "libx264", {}, None)),
        ("mp4 h264, key every 12", "movie", lambda p, s: _movie(p.with_suffix(".mp4"), s, "libx264", {}, 12)),
        ("mp4 h264, every frame a key", "movie", lambda p, s: _movie(p.with_suffix(".mp4"), s, "libx264", {}, 1)),
        ("webm vp9, default keys", "movie", lambda p, s: _movie(p.with_suffix(".webm"), s, "libvpx-vp9", _VP9, None)),
        ("webm vp9, key every 12", "movie", lambda p, s: _movie(p.with_suffix(".webm"), s, "libvpx-vp9", _VP9, 12)),
        ("mov ProRes 422", "movie", lambda p, s: _movie(p.with_suffix(".mov"), s, "prores_ks", _PRORES, 1)),
        ("JPEG files", "files", lambda p, s: _write_files(p, s, ".jpg")),
        ("PNG files", "files", lambda p, s: _write_files(p, s, ".png")),
        ("EXR files, half, ZIP", "files", _exr_files),
        ("shards of JPEG", "shards", _shards),
        (AS_TRUE, "shards", lambda p, s: _shards(p, s, quality)),
        (PLANES, "shards", lambda p, s: _shards(p, s, coding="planes")),
        (RAW, "shards", lambda p, s: _shards(p, s, coding="raw")),
        (CLIPS, "shards", lambda p, s: _shards(p, s, coding="h264")),
    ]
    makers = [row for row in makers if not only or any(text in row[0] for text in only)]
    found: list[EncodedShot] = []
    quality = QUALITY
    for number, (name, kind, make) in enumerate(makers):
        base = folder / f"{number:02}"
        if name == AS_TRUE:
            movie = next((source.path for source in found if source.kind == "movie"), None)
            quality = QUALITY if movie is None else quality_of(movie, size)
        make(base, synthetic_shot(n_frames, size))
        path = next(p for p in sorted(folder.iterdir()) if p.stem == base.name)
        found.append(EncodedShot(name, kind, path, n_frames))
    return found


_PRORES = {"profile": "standard"}
_VP9 = {"deadline": "realtime", "cpu-used": "8", "crf": "30", "b": "0"}


def _movie(path: Path, pictures: Iterator[Picture], codec: str, options: dict[str, str], keys: int | None) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=Fraction(FPS), options=options)
        stream.pix_fmt = "yuv422p10le" if codec == "prores_ks" else "yuv420p"
        if keys is not None:
            stream.codec_context.gop_size = keys
        for at, picture in enumerate(pictures):
            if at == 0:
                stream.height, stream.width = picture.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def quality_of(movie: Path, size: int) -> int:
    """The lowest JPEG quality, in steps of 5, whose mean PSNR is not below that of the movie."""
    import av

    meant = list(itertools.islice(synthetic_shot(N_COMPARED, size), N_COMPARED))
    with av.open(str(movie)) as container:
        coded = [frame.to_ndarray(format="rgb24") for frame in itertools.islice(container.decode(video=0), N_COMPARED)]
    wanted = psnr_db(coded, meant)
    for quality in range(10, QUALITY, 5):
        pictures = [cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])[1] for picture in meant]
        if psnr_db([np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR)) for data in pictures], meant) >= wanted:
            return quality
    return QUALITY


def psnr_db(found: Sequence[npt.NDArray[Any]], meant: Sequence[Picture]) -> float:
    """Mean PSNR of pictures against the originals, 8-bit values."""
    apart = [float(np.mean((a.astype(np.float32) - b) ** 2)) for a, b in zip(found, meant, strict=True)]
    return float(np.mean([10 * np.log10(255**2 / max(value, 1e-3)) for value in apart]))


def _write_files(folder: Path, pictures: Iterator[Picture], suffix: str, quality: int = QUALITY) -> None:
    folder.mkdir(parents=True)
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else []
    for at, picture in enumerate(pictures):
        cv2.imwrite(str(folder / f"{at:05}{suffix}"), picture[..., ::-1], options)


def _exr_files(folder: Path, pictures: Iterator[Picture]) -> None:
    import OpenImageIO as oiio

    folder.mkdir()
    for at, picture in enumerate(pictures):
        spec = oiio.ImageSpec(picture.shape[1], picture.shape[0], 3, "half")
        spec.attribute("compression", "zip")
        oiio_save(folder / f"{at:05}.exr", spec, np.asarray(picture / np.float32(255), np.float16))


def _shards(
    folder: Path,
    pictures: Iterator[Picture],
    quality: int = QUALITY,
    *,
    coding: Literal["planes", "raw", "h264"] | None = None,
) -> None:
    """Shards as `rotopaint mine --shards` writes them: with the cut files, or with pictures encoded again."""
    loose = folder.with_name(folder.name + "-loose")
    _write_files(loose / "images", pictures, ".jpg" if coding is None else ".png", quality)
    names = sorted(path.name for path in (loose / "images").iterdir())
    height, width = read_picture(loose / "images" / names[0]).shape[:2]
    places = {"a": (1.0, 1.0, 1.0), "b": (width - 1.0, height - 1.0, 1.0)}
    samples = [Sample(f"images/{name}", width, height, "a", "s", at, "train", places) for at, name in enumerate(names)]
    sheet = Sheet(name="two", landmarks=(LandmarkSpec("a"), LandmarkSpec("b")), shapes=())
    write_dataset(loose, name="shot", licence="CC0", sheet=sheet, samples=samples)
    pack_dataset(loose, folder, recode=None if coding is None else Recoder(coding))
    shutil.rmtree(loose)
