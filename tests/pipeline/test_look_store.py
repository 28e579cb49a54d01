"""Looks that tracking keeps for the whole shot."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.pipeline.frame_store import LookStore
from rotopaint_ai.seams.placement import SeamLook, look


def made_up_look(seed: int) -> SeamLook:
    rgb = np.random.default_rng(seed).uniform(0, 1, (40, 40, 3)).astype(np.float32)
    return look(rgb, seed, 2 * seed, Crop(seed + 20.0, 2 * seed + 20.0, 30.0), lambda linear: linear)


def test_a_look_comes_back_as_it_was(tmp_path: Path) -> None:
    store = LookStore()
    store.open_in(tmp_path)
    for frame in (1001, 1003, 1007):
        store.keep(frame, made_up_look(frame % 10))
    for frame in (1007, 1001, 1003):
        found, wanted = store.look_up(frame), made_up_look(frame % 10)
        assert found is not None
        assert (found.x, found.y, found.scale, found.crop) == (wanted.x, wanted.y, wanted.scale, wanted.crop)
        np.testing.assert_array_equal(found.grey, wanted.grey)
        np.testing.assert_array_equal(found.picture, wanted.picture)
    assert store.look_up(1002) is None
    assert not list(tmp_path.iterdir())  # the file has no name that could stay behind
    store.close()
    assert store.look_up(1001) is None


def test_nothing_is_kept_where_no_folder_was_named() -> None:
    store = LookStore()
    store.keep(1001, made_up_look(1))
    assert store.look_up(1001) is None


def test_a_disk_that_is_full_is_named_by_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = LookStore()
    store.open_in(tmp_path)
    monkeypatch.setattr(pickle, "dump", fill)
    with pytest.raises(OSError, match="No space left") as refused:
        store.keep(1001, made_up_look(1))
    assert refused.value.filename == str(tmp_path)
    store.close()
