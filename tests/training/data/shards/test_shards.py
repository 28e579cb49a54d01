"""Shards contain the same data as the folder, whichever way they are read."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import av
import cv2
import numpy as np
import pytest

from rotopaint_ai import remote
from rotopaint_ai.errors import DiskError, TrainingError
from rotopaint_ai.plates.coded_pictures import decode, decode_clip, encode_clip, planes, write_picture
from rotopaint_ai.remote import TRIES
from rotopaint_ai.sheet import LandmarkSpec, Sheet
from rotopaint_ai.training.data.dataset import Sample, join, read_dataset, write_dataset
from rotopaint_ai.training.data.memory import Memory, join_memories, load_pictures, shrink_memory
from rotopaint_ai.training.data.shards import read
from rotopaint_ai.training.data.shards.read import ShardPictures
from rotopaint_ai.training.data.shards.store import INDEX, Folder, Server, Shard, parse_index
from rotopaint_ai.training.data.shards.stream import Sampler, prefetch, reading_and_decoding_s, sizes_of
from rotopaint_ai.training.data.shards.write import Coding, Recoder, pack_dataset

N = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of small noisy pictures, so that each is a few kB as JPEG or PNG."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)
    samples = []
    for n in range(N):
        name = f"images/a.{1001 + n}.{'png' if n % 5 == 0 else 'jpg'}"
        (folder / "images").mkdir(exist_ok=True)
        write_picture(folder / name, rng.integers(0, 255, (40, 60, 3), dtype=np.uint8))
        landmarks = {"a": (10.0 + n, 5.0, 1.0), "b": (50.0, 30.0 + n / 10, 1.0)}
        samples.append(Sample(name, 60, 40, "pip", "sh010", 1001 + n, "train", landmarks))
    sheet = Sheet(name="two", landmarks=(LandmarkSpec("a"), LandmarkSpec("b")), shapes=())
    write_dataset(folder, name="noise", licence="CC0", sheet=sheet, samples=samples)
    return folder


@pytest.fixture(scope="module")
def packed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data set in shards of about five pictures."""
    out = tmp_path_factory.mktemp("packed")
    assert len(pack_dataset(folder, out, shard_mb=0.02).shards) > 4
    return out


def test_shards_hold_the_same_pictures_and_truth(folder: Path, packed: Path) -> None:
    plain, sharded = read_dataset(folder), read_dataset(packed)
    assert sharded.samples == plain.samples
    assert not (packed / "images").exists()
    for row in range(N):
        np.testing.assert_array_equal(sharded.picture(row), plain.picture(row))


def test_memory_from_shards_is_the_same_in_any_order_of_access(folder: Path, packed: Path) -> None:
    plain, sharded = (load_pictures(read_dataset(path), side_px=24, margin=1.3) for path in (folder, packed))
    assert sharded.groups is not None
    assert len(set(sharded.groups)) > 4
    for a, b in (
        (plain, sharded),
        (shrink_memory(plain, 0.5), shrink_memory(sharded, 0.5)),
        (join_memories(plain, plain), join_memories(sharded, sharded)),
    ):
        np.testing.assert_array_equal(a.truth.landmarks, b.truth.landmarks)
        for row in (0, N // 2, len(a) - 1):
            np.testing.assert_array_equal(a.pictures[row], b.pictures[row])


def test_bytes_that_come_and_their_decoding_are_timed_apart(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, now = read_dataset(packed), [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr(ShardPictures, "data", lambda self, name: now.__setitem__(0, now[0] + 3))
    monkeypatch.setattr(ShardPictures, "picture", _slow_picture(now))
    memory = load_pictures(data, side_px=24, margin=1.3)
    both = join_memories(memory, memory)
    assert (memory.pictures[1] == 7).all()
    assert reading_and_decoding_s(both.pictures) == (6.0, 10.0)  # each of the two has that picture
    assert reading_and_decoding_s(()) == (0.0, 0.0)


def _slow_picture(now: list[float]) -> Callable[[ShardPictures, str], np.ndarray]:
    def picture(self: ShardPictures, name: str) -> np.ndarray:
        now[0] += 5
        return np.full((40, 60, 3), 7, np.uint8)

    return picture


def test_webdataset_reads_the_tars(packed: Path) -> None:
    tariterators = pytest.importorskip("webdataset.tariterators")
    found = []
    for path in sorted((packed / "shards").glob("*.tar")):
        with path.open("rb") as stream:
            files = tariterators.tar_file_expander([{"url": path.name, "stream": stream}])
            found += list(tariterators.group_by_keys(files))
    assert [json.loads(row["json"])["frame"] for row in found] == list(range(1001, 1001 + N))
    assert all(("jpg" in row) != ("png" in row) for row in found)


def test_the_same_data_gives_the_same_bytes(folder: Path, packed: Path, tmp_path: Path) -> None:
    pack_dataset(folder, tmp_path, shard_mb=0.02)
    one, other = ({path.name: path.read_bytes() for path in (each / "shards").iterdir()} for each in (packed, tmp_path))
    assert one
    assert one == other


def test_a_damaged_shard_is_named(folder: Path, tmp_path: Path) -> None:
    index = pack_dataset(folder, tmp_path, shard_mb=0.02)
    data = read_dataset(tmp_path)
    (tmp_path / "shards/000001.tar").write_bytes(b"short")
    with pytest.raises(TrainingError, match=r"000001.tar: has 5 bytes, the index says [\d,]+; copy it again"):
        data.picture(data.groups().index(1))  # type: ignore[union-attr]
    offset, size, *_ = index.shards[2].members[next(iter(index.shards[2].members))]
    whole = bytearray((tmp_path / "shards/000002.tar").read_bytes())
    for at in range(offset + size // 2, offset + size, 20):  # most decoders make some picture of these
        whole[at] ^= 1
    (tmp_path / "shards/000002.tar").write_bytes(whole)
    with pytest.raises(TrainingError, match=r"000002.tar: images/.* changed after it was packed; copy the shard again"):
        data.picture(data.groups().index(2))  # type: ignore[union-attr]


def test_an_index_that_knows_no_checksums_is_refused(folder: Path, tmp_path: Path) -> None:
    pack_dataset(folder, tmp_path, shard_mb=0.02)
    index = json.loads((tmp_path / INDEX).read_text())
    for row in index["shards"]:
        row["members"] = {name: place[:2] for name, place in row["members"].items()}
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(TrainingError, match="pack the data set again"):
        read_dataset(tmp_path)


def test_a_clip_is_decoded_in_place_and_is_what_single_pictures_are(packed: Path, tmp_path: Path) -> None:
    data = read_dataset(packed)
    (pack,) = data.shard_sets
    names = [sample.image for sample in data.samples[3:9]]  # both JPEG and PNG
    np.testing.assert_array_equal(pack.clip(names, (60, 40)), np.stack([data.picture(row) for row in range(3, 9)]))
    with pytest.raises(TrainingError, match=r"images/a.1004.jpg: is 60x40; wanted 40x60 for a clip of one size"):
        pack.clip(names, (40, 60))


def test_pictures_that_are_coded_anew_are_smaller_and_the_loss_is_reported(
    folder: Path, packed: Path, tmp_path: Path
) -> None:
    recode = Recoder(60)
    pack_dataset(folder, tmp_path, recode=recode)
    plain, coded = read_dataset(packed), read_dataset(tmp_path)
    assert coded.samples == plain.samples
    apart = [coded.picture(row).astype(float) - plain.picture(row) for row in range(N)]
    assert recode.psnr_db == pytest.approx(np.mean([10 * np.log10(255**2 / (d**2).mean()) for d in apart]), abs=1e-3)
    assert recode.n_bytes < 0.6 * recode.n_bytes_before


def test_raw_pictures_are_the_same_ones_and_need_no_decoding(packed: Path, folder: Path, tmp_path: Path) -> None:
    recode = Recoder("raw")
    index = pack_dataset(folder, tmp_path, recode=recode)
    plain, raw = read_dataset(packed), read_dataset(tmp_path)
    for row in range(N):
        np.testing.assert_array_equal(raw.picture(row), plain.picture(row))
    names = [sample.image for sample in raw.samples[:4]]
    np.testing.assert_array_equal(raw.shard_sets[0].clip(names, (60, 40))[3], plain.picture(3))
    assert recode.psnr_db == 99
    tar = tmp_path / "shards/000000.tar"
    broken = bytearray(tar.read_bytes())
    broken[index.shards[0].members[names[0]].offset + 40] ^= 0xFF  # in the array's header
    tar.write_bytes(broken)
    assert decode(bytes(broken[index.shards[0].members[names[0]].offset :])) is None
    with pytest.raises(TrainingError, match="changed after it was packed"):
        read_dataset(tmp_path).picture(0)


def test_planes_keep_brightness_whole_and_colour_at_half_size(folder: Path, packed: Path, tmp_path: Path) -> None:
    recode = Recoder("planes")
    index = pack_dataset(folder, tmp_path, recode=recode)
    plain, coded = read_dataset(packed), read_dataset(tmp_path)
    for row in range(4):
        meant, found = (data.picture(row).astype(float) @ (0.299, 0.587, 0.114) for data in (plain, coded))
        assert np.median(np.abs(meant - found)) < 1  # except where colours leave the cube: these are noise
    names = [sample.image for sample in coded.samples[:4]]
    pack = coded.shard_sets[0]
    np.testing.assert_array_equal(pack.clip(names, (60, 40))[3], coded.picture(3))
    assert index.shards[0].members[names[0]].size == 128 + 60 * 40 * 3 // 2  # numpy's header and the planes
    with pytest.raises(TrainingError, match="is 60x40; wanted 40x60"):
        pack.clip(names, (40, 60))


@pytest.mark.parametrize(("coding", "most"), [("planes", 3600 + 128), ("raw", 7200 + 128)])
def test_a_tar_has_the_requested_size_in_every_coding(
    folder: Path, tmp_path: Path, coding: Literal["planes", "raw"], most: int
) -> None:
    index = pack_dataset(folder, tmp_path, shard_mb=0.03, recode=Recoder(coding))
    for shard in index.shards:
        assert sum(member.size for member in shard.members.values()) <= 30_000 + 128 * len(shard.members)
        assert len(shard.members) <= 30_000 // (most - 128)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Recoder]:
    """Two smooth shots of 13 and 4 pictures, whose sizes differ from frame to frame: as files, and packed as clips."""
    loose, out = tmp_path_factory.mktemp("loose"), tmp_path_factory.mktemp("clips")
    rows, columns = np.mgrid[0:61, 0:64]
    (loose / "images").mkdir()
    samples = []
    for n in range(17):
        shot, name, side = "sh010" if n < 13 else "sh020", f"images/{n:02}.png", 54 + n % 8
        soft = np.stack([rows * 3 + 9 * n, columns * 2 + 9 * n, rows + columns], 2)[:side, :side] % 256
        write_picture(loose / name, cv2.GaussianBlur(soft.astype(np.uint8), (0, 0), 3))
        marks = {"a": (5.0, 5.0, 1.0), "b": (50.0, 30.0, 1.0)}
        samples.append(Sample(name, side, side, "pip", shot, 1001 + n, "train", marks))
    sheet = Sheet(name="two", landmarks=(LandmarkSpec("a"), LandmarkSpec("b")), shapes=())
    write_dataset(loose, name="soft", licence="CC0", sheet=sheet, samples=samples)
    recode = Recoder("h264")
    pack_dataset(loose, out, recode=recode)
    return loose, out, recode


def test_clips_give_each_picture_at_its_own_size_in_any_order(clips: tuple[Path, Path, Recoder]) -> None:
    plain, coded = (read_dataset(folder) for folder in clips[:2])
    assert coded.samples == plain.samples
    for row in (16, 3, 12, 0, 11):
        meant, found = (data.picture(row).astype(float) for data in (plain, coded))
        beside = plain.picture(row + 1 if row < 16 else 15)[:54, :54].astype(float)
        assert found.shape == meant.shape
        assert np.abs(found - meant).mean() < 2.5 < np.abs(found[:54, :54] - beside).mean()  # not its neighbour
    assert clips[2].n == 17
    assert clips[2].psnr_db > 36
    assert clips[2].n_bytes < clips[2].n_bytes_before


def test_a_clip_ends_with_its_shot_and_holds_at_most_twelve(clips: tuple[Path, Path, Recoder]) -> None:
    (shard,) = parse_index((clips[1] / INDEX).read_bytes(), "here").shards
    of_each = [member.number for member in shard.members.values()]
    assert of_each == [*range(12), 0, *range(4)]
    assert len({member.offset for member in shard.members.values()}) == 3


def test_pictures_of_a_clip_are_decoded_together_and_are_what_single_ones_are(
    clips: tuple[Path, Path, Recoder],
) -> None:
    data = read_dataset(clips[1])
    rows = [0, 8, 8, 16]  # of three clips, all 54 x 54
    found = data.shard_sets[0].clip([data.samples[row].image for row in rows], (54, 54))
    np.testing.assert_array_equal(found, np.stack([data.picture(row) for row in rows]))
    with pytest.raises(TrainingError, match="is 54x54; wanted 60x54"):
        data.shard_sets[0].clip([data.samples[0].image], (60, 54))


def test_webdataset_reads_clips_with_a_line_for_each_picture(clips: tuple[Path, Path, Recoder]) -> None:
    tariterators = pytest.importorskip("webdataset.tariterators")
    with (clips[1] / "shards/000000.tar").open("rb") as stream:
        files = tariterators.tar_file_expander([{"url": "0", "stream": stream}])
        found = list(tariterators.group_by_keys(files))
    assert [row["mp4"][4:8] for row in found] == [b"ftyp"] * 3
    frames = [json.loads(line)["frame"] for row in found for line in row["jsonl"].splitlines()]
    assert frames == list(range(1001, 1018))


@pytest.mark.parametrize("side", [20, 90])
@pytest.mark.parametrize("coding", ["h264", "raw", 60])
def test_a_picture_replaced_by_another_size_is_refused_by_name(
    clips: tuple[Path, Path, Recoder], tmp_path: Path, coding: Coding, side: int
) -> None:
    loose = tmp_path / "loose"
    shutil.copytree(clips[0], loose)
    write_picture(loose / "images/05.png", np.full((side, side, 3), 90, np.uint8))
    wanted = rf"images/05.png: is {side}x{side}; samples.jsonl says 59x59; mine the data set again"
    with pytest.raises(TrainingError, match=wanted):
        pack_dataset(loose, tmp_path / "out", recode=Recoder(coding))
    (loose / "images/05.png").write_bytes(b"no picture")
    with pytest.raises(TrainingError, match=r"images/05.png: cannot be read as a picture"):
        pack_dataset(loose, tmp_path / "out", recode=Recoder(coding))
    assert not (tmp_path / "out" / INDEX).exists()


def test_few_shards_stay_open_and_reopened_ones_are_checked_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MOST_OPEN", 2)
    index, plain = pack_dataset(folder, tmp_path, shard_mb=0.01), read_dataset(folder)
    assert len(index.shards) > 4
    data = read_dataset(tmp_path)
    n_files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    for row in (*range(N), *range(N)):
        np.testing.assert_array_equal(data.picture(row), plain.picture(row))
    assert len(data.shard_sets[0]._open) == 2
    if n_files:
        assert len(os.listdir("/proc/self/fd")) <= n_files + 2
    first, member = tmp_path / "shards" / index.shards[0].name, index.shards[0].members[data.samples[0].image]
    whole = bytearray(first.read_bytes())
    whole[member.offset + 20] ^= 1
    first.write_bytes(whole)
    with pytest.raises(TrainingError, match="changed after it was packed"):
        data.picture(0)


def test_a_damaged_clip_is_named(clips: tuple[Path, Path, Recoder], tmp_path: Path) -> None:
    index = pack_dataset(clips[0], tmp_path, recode=Recoder("h264"))
    tar, member = tmp_path / "shards/000000.tar", index.shards[0].members["images/00.png"]
    whole = bytearray(tar.read_bytes())
    whole[member.offset + member.size // 2] ^= 1
    tar.write_bytes(whole)
    with pytest.raises(TrainingError, match=r"images/00.png in it changed after it was packed; copy the shard again"):
        read_dataset(tmp_path).picture(0)
    for broken in (whole[member.offset : member.offset + 200], b"", b"no movie at all"):
        with pytest.raises(ValueError, match="cannot be read as a clip"):
            decode_clip(bytes(broken), [0])
    beyond = json.loads((tmp_path / INDEX).read_text())
    beyond["shards"][0]["members"]["images/16.png"][3] = 40
    (tmp_path / INDEX).write_text(json.dumps(beyond))
    with pytest.raises(TrainingError, match=r"000000.tar: images/16.png in it cannot be read as a picture"):
        read_dataset(tmp_path).picture(16)


def _movie(codec: str, size: tuple[int, int], pixels: str, length: int = 1) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as movie:
        stream = movie.add_stream(codec, rate=24)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        for _ in range(length):
            movie.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((*size[::-1], 3), np.uint8), format="rgb24")))
        movie.mux(stream.encode())
    return file.getvalue()


@pytest.mark.parametrize(
    ("movie", "number"),
    [
        (_movie("libx264", (63, 48), "yuv444p"), 0),
        (_movie("libx264", (64, 47), "yuv444p"), 0),
        (_movie("mpeg4", (64, 48), "yuv420p"), 0),
        (_movie("libx264", (64, 48), "yuv420p", 40), 39),
    ],
)
def test_a_movie_that_is_none_of_our_clips_is_refused(movie: bytes, number: int) -> None:
    with pytest.raises(ValueError, match="cannot be read as a clip"):
        decode_clip(movie, [number])


def test_a_clip_whose_bytes_were_changed_is_read_or_refused() -> None:
    whole, chance, refused = encode_clip([np.zeros((48, 64, 3), np.uint8)] * 2), random.Random(5), 0
    for _ in range(200):
        changed = bytearray(whole)
        for _ in range(30):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            assert [picture.ndim for picture in decode_clip(changed, [0, 1])] == [3, 3]
        except ValueError:
            refused += 1
    assert 0 < refused < 200


def test_planes_of_an_odd_picture_are_raw_ones() -> None:
    picture = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)
    found = decode(Recoder("planes")([picture], 1))
    assert found is not None
    np.testing.assert_array_equal(found, picture)


def test_planes_of_one_colour_come_back_as_it_was() -> None:
    """By the formulas of BT.601: grey 126 is Y 124, and red (200, 0, 0) is Y 67, U 98, V 216, to one rounding step."""
    for colour in ((126, 126, 126), (200, 0, 0), (10, 220, 90)):
        picture = np.full((4, 6, 3), colour, np.uint8)
        found = decode(Recoder("planes")([picture], 1))
        assert found is not None
        assert np.abs(found.astype(int) - picture).max() <= 2
    stored = planes(np.full((4, 6, 3), 126, np.uint8))
    assert stored is not None
    assert (stored[:4] == 124).all()


def test_damaged_planes_are_no_picture() -> None:
    raw = io.BytesIO()
    np.save(raw, np.zeros((7, 6), np.uint8))  # seven rows are not three halves of any height
    assert decode(raw.getvalue()) is None


@pytest.mark.parametrize("text", ["", "[]", '{"format": "x"}', '{"format": "rotopaint-shards", "version": 1}'])
def test_an_index_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TrainingError, match=r"^here: .*pack the data set again$"):
        parse_index(text, "here")


GOOD = {"name": "0.tar", "bytes": 1, "sha256": "0" * 64, "members": {}}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "../x"}, "not a plain file name"),
        ({"name": "..", "bytes": 2}, "not a plain file name"),
        ({"sha256": "/home/somebody/notes"}, "wanted 64 hexadecimal digits"),
        ({"sha256": "0" * 63 + "/"}, "wanted 64 hexadecimal digits"),
        ({"bytes": 1 << 60}, "wanted a whole number of at most 68,719,476,736"),
        ({"bytes": 1e999}, "cannot be read as JSON"),
        ({"bytes": -1}, "bytes is -1; wanted a whole number of at least 1"),
        ({"members": [3]}, "members is a list of 1; wanted named fields"),
        ({"members": {"b": [0, 1, 0], "a": []}}, "members: a is a list of 0; wanted a list of 3 to 6"),
        ({"members": {"a": [0, 2, 0]}}, "outside its shard"),
        ({"members": {"a": [0, 1, 0, -1, 4, 4]}}, "members: a 4 is -1; wanted a whole number of at least 0"),
        ({"members": {"a": [0, 1, 0, 3, 0, 4]}}, "no size in its clip"),
    ],
)
def test_an_index_that_points_elsewhere_or_asks_for_too_much_is_refused(wrong: dict[str, object], said: str) -> None:
    rows = [GOOD, {**GOOD, "name": "1.tar", **wrong}]
    text = json.dumps({"format": "rotopaint-shards", "version": 1, "shards": rows})
    with pytest.raises(TrainingError, match=f"^here: .*{said}.*pack the data set again$"):
        parse_index(text, "here")


def test_an_index_without_bottom_or_with_one_name_twice_is_refused() -> None:
    deep = '{"format": "rotopaint-shards", "version": 1, "shards": ' + "[" * 100_000
    twice = json.dumps({"format": "rotopaint-shards", "version": 1, "shards": [GOOD, GOOD]})
    for text, said in ((deep, "recursion"), (twice, "two shards have one name")):
        with pytest.raises(TrainingError, match=said):
            parse_index(text, "here")


def _endless(url: str) -> Iterator[bytes]:
    while True:
        yield bytes(1 << 20)


def _drip(url: str) -> Iterator[bytes]:
    while True:
        time.sleep(0.01)
        yield b"x"


def _silent(url: str) -> Iterator[bytes]:
    time.sleep(3)
    yield b"late"


def test_a_server_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotopaint_ai.remote.MOST_TEXT", 5 << 20)
    server = Server("mem://x", tmp_path, _endless, pause_s=0.001)
    with pytest.raises(TrainingError, match=r"dataset.json: sends more than the 5,242,880 bytes expected"):
        server.read("dataset.json")
    with pytest.raises(TrainingError, match=r"0.tar: sends more than the 1,000 bytes"):
        server.shard(Shard("0.tar", 1000, "0" * 64, {}))
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("fetch", [_drip, _silent])
def test_a_server_that_drips_is_not_waited_for(tmp_path: Path, fetch: Callable[[str], Iterator[bytes]]) -> None:
    server = Server("mem://x", tmp_path, fetch, pause_s=0.001, grace_s=0.05)
    with pytest.raises(TrainingError, match=r"0.tar: sent only \d+ bytes in .* s \(4 tries\)"):
        server.shard(Shard("0.tar", 1000, "0" * 64, {}))


def test_a_shard_beyond_the_cache_is_refused_before_anything_is_removed(packed: Path, tmp_path: Path) -> None:
    server, moody = _server(packed, tmp_path)
    kept = server.shard(server.index().shards[0])
    asked = moody.n_asked
    with pytest.raises(TrainingError, match="pack the data set in smaller shards"):
        server.shard(Shard("9.tar", 60 << 30, "0" * 64, {}))
    assert kept.is_file()
    assert moody.n_asked == asked


class Moody:
    """A server in memory that is sometimes slow, unreachable or wrong; each request for a tar uses up one of
    `moods`."""

    def __init__(self, folder: Path, *moods: str) -> None:
        self.folder, self.moods, self.n_asked = folder, list(moods), 0
        self.asked = threading.Event()
        self.gate: threading.Event | None = None  # while it is shut, requests wait

    def __call__(self, url: str) -> Iterator[bytes]:
        data = (self.folder / url.removeprefix("mem://x/")).read_bytes()
        mood = self.moods.pop(0) if self.moods and url.endswith(".tar") else "well"
        self.n_asked += url.endswith(".tar")
        if url.endswith(".tar"):
            self.asked.set()
        if self.gate is not None and url.endswith(".tar"):
            while not self.gate.is_set():
                time.sleep(0.005)
                yield b""
        if mood == "slow":
            raise TimeoutError("timed out")
        if mood == "gone":
            yield data[:100]
            raise ConnectionResetError("connection reset")
        if mood == "full":
            raise OSError(28, "No space left on device")
        yield data[::-1] if mood == "wrong" else data[:-1] if mood == "short" else data


def _server(folder: Path, cache: Path, *moods: str) -> tuple[Server, Moody]:
    moody = Moody(folder, *moods)
    return Server("mem://x", cache, moody, pause_s=0.001), moody


def test_an_unreliable_server_is_retried_until_the_bytes_are_right(packed: Path, tmp_path: Path) -> None:
    server, moody = _server(packed, tmp_path, "slow", "wrong", "gone")
    shard = parse_index(server.read(INDEX), "x").shards[0]
    path = server.shard(shard)
    assert path.read_bytes() == (packed / "shards/000000.tar").read_bytes()
    assert moody.n_asked == 4
    server.shard(shard)
    assert moody.n_asked == 4  # now cached
    path.write_bytes(bytes(path.stat().st_size))  # of the right size, and damaged
    assert server.shard(shard).read_bytes() == (packed / "shards/000000.tar").read_bytes()
    assert moody.n_asked == 5
    assert not list(tmp_path.glob(".*part*"))


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        ("slow", "timed out"),
        ("gone", "connection reset"),
        ("wrong", "do not match the expected hash"),
        ("short", "of [0-9,]+ bytes"),
    ],
)
def test_a_server_that_stays_bad_is_named_and_nothing_false_is_kept(
    packed: Path, tmp_path: Path, mood: str, said: str
) -> None:
    server, _ = _server(packed, tmp_path, *[mood] * 9)
    with pytest.raises(TrainingError, match=rf"mem://x/shards/000000.tar: .*{said}.* \(4 tries\)"):
        server.shard(server.index().shards[0])
    assert not list(tmp_path.glob("[!.]*.tar"))


def test_a_full_disk_is_reported_at_once(packed: Path, tmp_path: Path) -> None:
    server, moody = _server(packed, tmp_path, "full", "full")
    with pytest.raises(TrainingError, match="No space left on device; make room, or set ROTOPAINT_CACHE"):
        server.shard(server.index().shards[0])
    assert moody.n_asked == 1


@pytest.mark.parametrize("at", ["hashed", "mapped"])
def test_a_shard_evicted_by_another_process_is_fetched_again(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Two trainings share a full cache: one removes the file that the other has just checked."""
    server, moody = _server(packed, tmp_path)
    pictures, plain = ShardPictures(server, server.index()), read_dataset(packed)
    name, hashed, mapped, removed = plain.samples[0].image, remote.file_sha256, read._map, list[Path]()

    def and_removed(path: Path) -> None:
        if not removed:
            removed.append(path)
            path.unlink()

    def hash_of(path: Path) -> str:
        found = hashed(path)
        and_removed(path)
        return found

    def map_of(path: Path, shard: Shard) -> object:
        and_removed(path)
        return mapped(path, shard)

    if at == "hashed":
        server.shard(pictures.index.shards[pictures.shard_of(name)])
        monkeypatch.setattr(remote, "file_sha256", hash_of)
    else:
        monkeypatch.setattr(read, "_map", map_of)
    np.testing.assert_array_equal(pictures.picture(name), plain.picture(0))
    assert len(removed) == 1
    assert moody.n_asked == 2


def test_a_cache_that_keeps_nothing_is_named(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = _server(packed, tmp_path)
    pictures, mapped = ShardPictures(server, server.index()), read._map

    def map_of(path: Path, shard: Shard) -> object:
        path.unlink()
        return mapped(path, shard)

    monkeypatch.setattr(read, "_map", map_of)
    with pytest.raises(TrainingError, match="deleted as soon as it is downloaded"):
        pictures.picture("images/a.1001.png")


def test_the_cache_keeps_what_was_used_last(packed: Path, tmp_path: Path) -> None:
    server, moody = _server(packed, tmp_path)
    shards = server.index().shards
    small = Server("mem://x", tmp_path, moody, limit_bytes=2.5 * shards[0].n_bytes)
    coming = tmp_path / ".another.0a.part.tar"  # another process's download; there is no space
    coming.write_bytes(b"x")
    os.utime(coming, (0, 0))
    for shard in shards[:4]:
        small.shard(shard)
    assert len(list(tmp_path.glob("[!.]*.tar"))) == 2
    assert coming.exists()
    small.shard(shards[3])
    assert moody.n_asked == 4
    assert isinstance(Folder(packed).index(), type(server.index()))


def test_every_sample_once_in_an_epoch() -> None:
    groups = tuple(np.repeat(np.arange(20), 7).tolist())
    for order in (Sampler(140, 3), Sampler(140, 3, groups, window=4)):
        seen = [row for step in range(14) for row in order.batch(step, 10)]
        assert sorted(seen) == list(range(140))
        assert order.batch(5, 10) == Sampler(140, 3, order.groups, window=4 if order.groups else 8).batch(5, 10)
    assert Sampler(140, 3).batch(14, 10) != Sampler(140, 3).batch(0, 10)


def test_a_stream_needs_few_shards_at_a_time_and_lists_the_next_ones() -> None:
    groups = tuple(np.repeat(np.arange(20), 7).tolist())
    order = Sampler(140, 3, groups, window=4)
    first = {groups[row] for step in range(2) for row in order.batch(step, 14)}
    assert len(first) <= 4
    ahead = [groups[row] for row in order.prefetch_rows(0, 14)]
    assert sorted(ahead) == list(range(20))
    assert set(ahead[:4]) == {groups[row] for row in order.epoch(0)[:28]}
    last = [groups[row] for row in order.prefetch_rows(9, 14)]  # the epoch's last step; then those of the next
    wanted = {groups[row] for row in order.batch(9, 14)}
    assert set(last[: len(wanted)]) == wanted
    assert sorted(last) == list(range(20))
    assert not Sampler(140, 3).prefetch_rows(0, 14)


def _streamed(packed: Path, cache: Path, *moods: str, gate: threading.Event | None = None) -> tuple[Memory, Moody]:
    server, moody = _server(packed, cache, *moods)
    moody.gate = gate
    pack = ShardPictures(server, server.index())
    data = read_dataset(packed)
    return load_pictures(replace(data, folders=(pack,) * len(data)), side_px=24, margin=1.3), moody


def test_shards_come_before_they_are_wanted(packed: Path, tmp_path: Path) -> None:
    memory, moody = _streamed(packed, tmp_path)
    order = Sampler(N, 1, memory.groups)
    with prefetch(memory.pictures, lambda step: order.prefetch_rows(step, 5), depth=2) as tell:
        tell(0)
        while len(list(tmp_path.glob("[!.]*.tar"))) < 2:  # ends, or pytest's own limit ends it
            time.sleep(0.005)
    assert moody.n_asked == 2
    for row in order.batch(0, 5):
        if memory.groups and memory.groups[row] in {memory.groups[row] for row in order.prefetch_rows(0, 5)[:2]}:
            memory.pictures[row]
    assert moody.n_asked == 2


def test_fetching_stops_in_the_middle_of_a_shard_and_leaves_nothing(packed: Path, tmp_path: Path) -> None:
    gate = threading.Event()
    memory, moody = _streamed(packed, tmp_path, gate=gate)
    with prefetch(memory.pictures, lambda step: [0, N - 1]) as tell:
        tell(0)
        assert moody.asked.wait(200)  # the server has begun its response, and does not finish
    assert not list(tmp_path.glob("[!.]*.tar"))
    assert moody.n_asked == 1
    gate.set()
    np.testing.assert_array_equal(memory.pictures[0].shape[2], 3)  # whoever waits for it still gets it
    assert moody.n_asked == 2


def test_what_cannot_be_fetched_ahead_is_reported_to_who_wants_it(packed: Path, tmp_path: Path) -> None:
    memory, moody = _streamed(packed, tmp_path, *["gone"] * 99)
    with prefetch(memory.pictures, lambda step: [0]) as tell:
        tell(0)
        assert moody.asked.wait(200)
    with pytest.raises(TrainingError, match="connection reset"):
        memory.pictures[0]


def test_after_a_shard_that_cannot_be_fetched_the_next_ones_still_come(packed: Path, tmp_path: Path) -> None:
    memory, moody = _streamed(packed, tmp_path, *["gone"] * TRIES)
    with prefetch(memory.pictures, lambda step: [0, N - 1]) as tell:
        tell(0)
        while not list(tmp_path.glob("[!.]*.tar")):  # one that is still being written has a dot before its name
            time.sleep(0.005)  # ends, or pytest's own limit ends it
    assert moody.n_asked == TRIES + 1
    memory.pictures[N - 1]
    assert moody.n_asked == TRIES + 1  # the second shard is available
    memory.pictures[0]
    assert moody.n_asked == TRIES + 2  # and the first comes when it is requested, after its server has recovered


def test_sets_of_both_kinds_join(folder: Path, packed: Path) -> None:
    both = join([read_dataset(folder), read_dataset(packed)])
    groups = both.groups()
    assert groups is not None
    assert groups[:N] == (-1,) * N
    np.testing.assert_array_equal(both.picture(3), both.picture(N + 3))


def test_a_picture_that_the_disk_does_not_take_is_the_disks_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCV reports only that it did not write."""
    monkeypatch.setattr(cv2, "imwrite", lambda *words: False)
    with pytest.raises(DiskError, match=r"a\.png: the picture could not be written; check the disk"):
        write_picture(tmp_path / "a.png", np.zeros((4, 4, 3), np.uint8))


def test_mining_anew_forgets_the_old_shards(folder: Path, tmp_path: Path) -> None:
    data = read_dataset(folder)
    pack_dataset(folder, tmp_path, shard_mb=0.02)
    write_picture(tmp_path / "images/new.png", np.full((40, 60, 3), 7, np.uint8))
    sample = Sample("images/new.png", 60, 40, "pip", "sh020", 1, "train", data.samples[0].landmarks)
    write_dataset(tmp_path, name="new", licence="CC0", sheet=data.sheet, samples=[sample])
    assert read_dataset(tmp_path).picture(0)[0, 0, 0] == 7


def test_training_and_held_out_shards_join_without_being_read(packed: Path) -> None:
    data = read_dataset(packed)
    halves = [load_pictures(data.subset(np.arange(a, b)), side_px=24, margin=1.3) for a, b in ((0, 12), (12, N))]
    both = shrink_memory(join_memories(*halves), 0.5)
    assert both.groups == data.groups()
    assert all(not pack._open for pack in data.shard_sets)  # nothing was fetched to concatenate them
    assert both.pictures[N - 1].shape[:2] == sizes_of(both.pictures)[N - 1][::-1]  # height, width; width, height
