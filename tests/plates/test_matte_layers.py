"""Mattes as EXR layers: names, windows and values as another reader finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.plates import open_plate, write_layers

from .writers import load, metadata


def _disc(width: int, height: int, x: float, y: float, radius: float) -> np.ndarray:
    rows, columns = np.mgrid[:height, :width] + 0.5
    return np.clip(radius - np.hypot(columns - x, rows - y), 0, 1).astype(np.float32)


def _whole(path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """All channels, placed in the display window."""
    about, values = metadata(path), load(path, "float")[0]
    full = np.zeros((about["full_height"], about["full_width"], values.shape[2]), np.float32)
    x, y = about["x"], about["y"]
    full[y : y + values.shape[0], x : x + values.shape[1]] = values
    return full, about["channels"]


def test_one_matte_is_rgba(tmp_path: Path) -> None:
    matte = _disc(120, 80, 50.3, 41.6, 9.2)
    write_layers(tmp_path / "m.0001.exr", {"nose": matte}, width=120, height=80, pixel_aspect=2.0)
    full, channels = _whole(tmp_path / "m.0001.exr")
    assert channels == ("R", "G", "B", "A")
    for place in range(4):
        np.testing.assert_array_equal(full[..., place], matte)
    about = metadata(tmp_path / "m.0001.exr")
    assert (about["width"], about["height"]) == (18, 19)  # centres 41.5-58.5 and 32.5-50.5
    assert (about["compression"], about["PixelAspectRatio"], about["format"]) == ("zip", "2.0", "float")


def test_layers_have_names(tmp_path: Path) -> None:
    layers = {"nose_seam": _disc(120, 80, 30, 40, 5), "brow": _disc(120, 80, 90, 20, 7)}
    write_layers(tmp_path / "all.exr", layers, width=120, height=80)
    full, channels = _whole(tmp_path / "all.exr")
    assert set(channels) == {"R", "G", "B", "A", "brow.A", "nose_seam.A"}
    for name, matte in layers.items():
        np.testing.assert_array_equal(full[..., channels.index(f"{name}.A")], matte)
    np.testing.assert_array_equal(full[..., channels.index("A")], np.maximum(*layers.values()))


def test_an_empty_matte_is_a_valid_black_file(tmp_path: Path) -> None:
    write_layers(tmp_path / "m.exr", {"nose": np.zeros((80, 120), np.float32)}, width=120, height=80)
    full, _ = _whole(tmp_path / "m.exr")
    assert full.shape == (80, 120, 4)
    assert not full.any()


def test_layers_may_begin_outside_the_plate(tmp_path: Path) -> None:
    write_layers(tmp_path / "m.exr", {"a": np.ones((4, 6), np.float32)}, width=20, height=10, origin=(-3, 8))
    about = metadata(tmp_path / "m.exr")
    assert (about["x"], about["y"], about["width"], about["height"]) == (-3, 8, 6, 4)
    with open_plate(tmp_path / "m.exr") as plate:
        assert (plate.width, plate.height) == (20, 10)
        assert plate.read(1).origin == (-3, 8)


def test_long_names_and_many_rows(tmp_path: Path) -> None:
    name = "a_very_long_name_of_a_shape_that_needs_the_long_name_flag"
    noise = np.random.default_rng(1).random((70, 50), np.float32)
    write_layers(tmp_path / "m.exr", {name: noise, "b": noise * 0.5}, width=50, height=70)
    full, channels = _whole(tmp_path / "m.exr")
    np.testing.assert_array_equal(full[..., channels.index(f"{name}.A")], noise)


@pytest.mark.parametrize("name", ["", "two words", "a.b", "a/b"])
def test_names_that_exr_or_nuke_cannot_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="rename the shape"):
        write_layers(tmp_path / "m.exr", {name: np.ones((4, 4), np.float32)}, width=4, height=4)


def test_sizes_must_agree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shapes"):
        write_layers(tmp_path / "m.exr", {"a": np.ones((4, 4)), "b": np.ones((5, 4))}, width=4, height=4)
    with pytest.raises(UsageError, match="shapes"):
        write_layers(tmp_path / "m.exr", {}, width=4, height=4)
