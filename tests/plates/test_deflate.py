"""Streams are what Python's own zlib reads, with ISA-L and without."""

import importlib.util
import zlib

import numpy as np
import pytest

from rotopaint_ai.plates import deflate

GRAIN = np.random.default_rng(1).normal(0, 3, 70_000).astype(np.int8).view(np.uint8)


@pytest.fixture(params=["isal", "zlib"], autouse=True)
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setattr(deflate, "isal_zlib", None)
    elif importlib.util.find_spec("isal") is None:
        pytest.skip("ISA-L is not installed here")


@pytest.mark.parametrize("data", [b"", bytes(100_000), GRAIN.tobytes()])
def test_a_stream_holds_what_went_in(data: bytes) -> None:
    assert zlib.decompress(deflate.compress(data)) == data
    assert deflate.decompress(zlib.compress(data), len(data) + 1) == data


def test_pieces_make_one_stream() -> None:
    packer = deflate.packer()
    stream = b"".join(packer.compress(GRAIN[at : at + 9_999]) for at in range(0, len(GRAIN), 9_999)) + packer.flush()
    assert zlib.decompress(stream) == GRAIN.tobytes()


def test_grain_packs() -> None:
    """Normal noise with a deviation of 3 has 3.6 bits of entropy (ln(3 sqrt(2 pi e)) / ln 2), 45 % of its bytes."""
    assert len(deflate.compress(GRAIN)) < 0.55 * len(GRAIN)


def test_no_more_comes_out_than_asked_for() -> None:
    assert deflate.decompress(zlib.compress(bytes(10_000_000)), 1_000) == bytes(1_000)


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\w"):
        deflate.decompress(b"abcdefgh", 100)


@pytest.mark.parametrize("n_lost", [1, 4, 5])
def test_a_stream_without_its_end_is_none(n_lost: int) -> None:
    with pytest.raises(ValueError, match="ends before its check"):
        deflate.decompress(zlib.compress(bytes(10_000))[:-n_lost], 10_001)
