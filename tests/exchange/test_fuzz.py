"""Damaged files of every format: read, or refused in one line; never a crash. `mutations.py` runs it for longer."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from rotopaint_ai.exchange import formats

from . import mutations

SUFFIXES = [each.suffixes[0] for each in formats.FORMATS if each.read is not None and each.write is not None]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_is_read_or_refused_in_one_line(tmp_path: Path, suffix: str) -> None:
    good = mutations.seed(tmp_path, suffix)
    refused = 0
    for path in islice(mutations.damaged([good], tmp_path, seed=7), 120):
        reported = mutations.trial(path)
        if reported is not None:
            refused += 1
            assert "\n" not in reported
            assert len(reported) <= 600
    assert refused > 10


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 2000,
        b"{" * 50_000,
        b"[" * 50_000,
        b"<a>" * 20_000,
        b"\xff\xfe\xfd",
        b'"',
        b"\\",
        b"9" * 20_000,
        b"\r\r\r",
    ],
    ids=["empty", "zeros", "braces", "brackets", "tags", "no text", "quote", "backslash", "digits", "returns"],
)
def test_what_is_no_shape_file_at_all_is_refused(tmp_path: Path, suffix: str, data: bytes) -> None:
    (tmp_path / f"a{suffix}").write_bytes(data)
    reported = mutations.trial(tmp_path / f"a{suffix}")
    assert reported is not None
    assert len(reported) <= 600
