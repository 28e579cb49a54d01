"""Pack a data set's folder into shards: `rotopaint mine ... --shards MB [--shard-codec CODEC]`."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import file_sha256, replacing, write_text
from rotopaint_ai.plates.coded_pictures import (
    CLIP_LENGTH,
    CLIP_SUFFIX,
    Picture,
    decode,
    decode_clip,
    encode_clip,
    planes,
)
from rotopaint_ai.plates.deflate import crc32
from rotopaint_ai.training.data.dataset import Dataset, Sample, read_dataset
from rotopaint_ai.training.data.shards.store import FOLDER, INDEX, Index, Member, Shard

SHARD_MB = 64  # large enough that a server's latency per file is negligible


Coding = int | Literal["planes", "raw", "h264"]


@dataclass(slots=True)
class Recoder:
    """Encodes pictures anew and measures the loss.

    `coding`: a JPEG quality (1 to 100); `planes`: full-size luma and half-size chroma, as in movies and most JPEGs,
    which decodes almost for free; `raw`; or `h264`: pictures of a shot together as clips. Pictures with an odd side are
    stored raw instead of as planes.
    """

    coding: Coding
    n: int = 0
    n_bytes_before: int = 0
    n_bytes: int = 0
    psnr_db: float = 0.0  # mean over all pictures, in 8-bit sRGB; a lossless picture counts as 99

    @property
    def clip_length(self) -> int:
        """Most pictures of a shot in one file of a tar."""
        return CLIP_LENGTH if self.coding == "h264" else 1

    @property
    def suffix(self) -> str:
        """The suffix of a file in a tar."""
        return ".jpg" if isinstance(self.coding, int) else CLIP_SUFFIX if self.coding == "h264" else ".npy"

    def __call__(self, pictures: Sequence[Picture], n_bytes_before: int) -> bytes:
        """Encode one picture (H, W, 3) RGB as a file, or several as a clip; `n_bytes_before`: size of their source
        files."""
        made = self._encode(pictures)
        for picture, again in zip(pictures, self._decode_again(made, len(pictures))):
            kept = again[: picture.shape[0], : picture.shape[1]]
            apart = float(np.mean((kept.astype(np.float32) - picture) ** 2))
            psnr_db = 10 * math.log10(255**2 / apart) if apart > 0 else 99.0
            self.psnr_db = (self.psnr_db * self.n + psnr_db) / (self.n + 1)
            self.n += 1
        self.n_bytes_before += n_bytes_before
        self.n_bytes += len(made)
        return made

    def size_of(self, sample: Sample, n_bytes_before: int) -> int:
        """The approximate size of a sample's encoded picture in bytes.

        Exact for planes and raw. A JPEG is assumed to keep its size; a clip, to need an eighth of it.
        """
        if self.coding not in ("planes", "raw"):
            return n_bytes_before // (8 if self.coding == "h264" else 1)
        return sample.width * sample.height * (6 if self.coding == "raw" else 3) // 2

    def _encode(self, pictures: Sequence[Picture]) -> bytes:
        if self.coding == "h264":
            return encode_clip(pictures)
        (picture,) = pictures
        if not isinstance(self.coding, int):
            stored, raw = planes(picture) if self.coding == "planes" else None, io.BytesIO()
            np.save(raw, picture if stored is None else stored)
            return raw.getvalue()
        options = [cv2.IMWRITE_JPEG_QUALITY, self.coding]
        return bytes(cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), options)[1])

    def _decode_again(self, made: bytes, count: int) -> Sequence[Picture]:
        if self.coding == "h264":
            return decode_clip(made, range(count))
        again = decode(made)
        assert again is not None
        return [again]


def pack_dataset(
    folder: Path,
    out: Path,
    *,
    shard_mb: float = SHARD_MB,
    recode: Recoder | None = None,
    check: Callable[[], None] = lambda: None,
) -> Index:
    """Pack a data set's pictures into tars under `out`/shards, and copy its sheet, samples and `dataset.json`.

    The order is that of the samples. `recode` encodes the pictures anew; None packs the files as they are. `check` is
    called once per picture and may raise to stop. The index is written last, so an interrupted run leaves no valid data
    set.
    Raises: TrainingError if a picture is missing or, when encoded anew, is unreadable or has another size than its
    sample states.
    """
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    (out / INDEX).unlink(missing_ok=True)
    data = read_dataset(folder)
    lines = [line for line in (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines() if line.strip()]
    shards = []
    for number, rows in enumerate(_split_rows(data, folder, shard_mb * 1e6, recode)):
        shards.append(_write_shard(out / FOLDER / f"{number:06}.tar", data, folder, rows, lines, recode, check))
    for name in ("sheet.yaml", "samples.jsonl", "dataset.json"):
        if (folder / name).resolve() != (out / name).resolve():
            write_text(out / name, (folder / name).read_text(encoding="utf-8"))
    index = Index(tuple(shards))
    write_text(out / INDEX, index.dump())
    return index


def _split_rows(data: Dataset, folder: Path, limit: float, recode: Recoder | None) -> Iterator[list[int]]:
    """Rows of samples, shard by shard; a picture shared by several samples is packed with the first."""
    rows: list[int] = []
    filled = 0.0
    for row, sample in enumerate(data.samples):
        try:
            size = (folder / sample.image).stat().st_size
        except OSError as error:
            raise TrainingError(
                f"{folder / sample.image}: is missing ({error.strerror}); mine the data set again"
            ) from error
        size = size if recode is None else recode.size_of(sample, size)
        if rows and filled + size > limit:
            yield rows
            rows, filled = [], 0.0
        rows.append(row)
        filled += size
    if rows:
        yield rows


def _write_shard(
    path: Path,
    data: Dataset,
    folder: Path,
    rows: Sequence[int],
    lines: Sequence[str],
    recode: Recoder | None,
    check: Callable[[], None],
) -> Shard:
    members: dict[str, Member] = {}
    with replacing(path) as beside:
        with tarfile.open(beside, "w", format=tarfile.USTAR_FORMAT) as tar:
            for run in _rows_together(data, rows, 1 if recode is None else recode.clip_length):
                for _ in run:
                    check()
                suffix, content = _encode_file(folder, [data.samples[row] for row in run], recode)
                place = _add_member(tar, f"{run[0]:08}{suffix}", content)
                for number, row in enumerate(run):
                    sample = data.samples[row]
                    in_clip = place._replace(number=number, width=sample.width, height=sample.height)
                    members.setdefault(sample.image, in_clip if suffix == CLIP_SUFFIX else place)
                truth = "".join(lines[row] + "\n" for row in run) if suffix == CLIP_SUFFIX else lines[run[0]]
                _add_member(tar, f"{run[0]:08}.json{'l' if suffix == CLIP_SUFFIX else ''}", truth.encode())
        sha256 = file_sha256(beside)
    return Shard(path.name, path.stat().st_size, sha256, members)


def _rows_together(data: Dataset, rows: Sequence[int], most: int) -> Iterator[list[int]]:
    """Runs of consecutive rows of one shot, at most `most` long."""

    def shot(row: int) -> tuple[str, str]:
        return data.samples[row].character, data.samples[row].shot

    for _, group in groupby(rows, shot):
        run = list(group)
        yield from (run[at : at + most] for at in range(0, len(run), most))


def _encode_file(folder: Path, samples: Sequence[Sample], recode: Recoder | None) -> tuple[str, bytes]:
    """The suffix and bytes of the file for some samples' pictures."""
    sources = [folder / sample.image for sample in samples]
    files = [source.read_bytes() for source in sources]
    if recode is None:
        return sources[0].suffix.lower(), files[0]
    pictures = [_sample_picture(*each) for each in zip(files, samples, sources)]
    return recode.suffix, recode(pictures, sum(map(len, files)))


def _sample_picture(data: bytes, sample: Sample, source: Path) -> Picture:
    """Decode a sample's picture and check its size, because a clip does not store sizes. Raises TrainingError."""
    picture = decode(data)
    if picture is None:
        raise TrainingError(f"{source}: cannot be read as a picture; mine the data set again")
    if picture.shape[:2] != (sample.height, sample.width):
        got, wanted = f"{picture.shape[1]}x{picture.shape[0]}", f"{sample.width}x{sample.height}"
        raise TrainingError(f"{source}: is {got}; samples.jsonl says {wanted}; mine the data set again")
    return picture


def _add_member(tar: tarfile.TarFile, name: str, data: bytes) -> Member:
    """Append a file that has equal bytes on every machine; returns the position of its content."""
    facts = tarfile.TarInfo(name)
    facts.size = len(data)
    tar.addfile(facts, io.BytesIO(data))
    padded = -(-len(data) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    return Member(tar.offset - padded, len(data), crc32(data))
