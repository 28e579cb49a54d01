"""The fast curves against OpenColorIO, and what networks are shown."""

from __future__ import annotations

from itertools import product

import numpy as np
import PyOpenColorIO as ocio
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.plates import colour

_RAMP = np.repeat(np.linspace(0.0, 1.0, 1024, dtype=np.float32)[None, :, None], 3, axis=2)


def _by_ocio(values: np.ndarray, transform: object) -> np.ndarray:
    config = ocio.Config.CreateFromFile(colour.CONFIG)
    pixels = values.copy().reshape(-1, 3)
    config.getProcessor(transform).getOptimizedCPUProcessor(ocio.OPTIMIZATION_LOSSLESS).applyRGB(pixels)
    return pixels.reshape(values.shape)


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance"),
    [
        ("sRGB", "sRGB - Texture", 2e-5),
        ("Rec.709", "Camera Rec.709", 5e-4),
    ],  # OCIO rounds to 1.099
)
def test_curves_are_those_of_ocio(ours: str, theirs: str, tolerance: float) -> None:
    linear = _by_ocio(_RAMP, ocio.ColorSpaceTransform(src=theirs, dst=colour.WORKING_SPACE))
    np.testing.assert_allclose(colour.linearise(_RAMP, ours), linear, atol=tolerance, rtol=1e-4)
    back = _by_ocio(linear, ocio.ColorSpaceTransform(src=colour.WORKING_SPACE, dst=theirs))
    np.testing.assert_allclose(colour.encode(linear, ours, dtype=np.float32), back, atol=tolerance, rtol=1e-4)


def test_cineon_is_ocio_s_affine_log() -> None:
    """685 is 1.0, 95 is 0.0, as in Kodak's paper and in Nuke's Cineon space."""
    black = 10 ** ((95 - 685) * 0.002 / 0.6)
    transform = ocio.LogAffineTransform(
        logSideSlope=[0.6 / 0.002 / 1023] * 3,
        logSideOffset=[685 / 1023] * 3,
        linSideSlope=[1 - black] * 3,
        linSideOffset=[black] * 3,
        direction=ocio.TRANSFORM_DIR_INVERSE,
    )
    transform.setBase(10.0)
    np.testing.assert_allclose(colour.linearise(_RAMP, "Cineon"), _by_ocio(_RAMP, transform), rtol=2e-4, atol=2e-5)
    codes = np.array([[[95, 685, 445]]], np.uint16)
    assert colour.linearise(codes, "Cineon", maximum=1023)[0, 0, :2] == pytest.approx([0.0, 1.0], abs=1e-6)


@pytest.mark.parametrize(
    ("space", "dtype", "maximum"),
    [
        *((space, np.uint16, 65535) for space in colour.CURVES),  # OpenColorIO's float32 is not exact to 16 bit
        *product([*colour.CURVES, "ACEScg", "ARRI LogC4"], [np.uint8], [255]),
        *product([*colour.CURVES, "ACEScg", "ARRI LogC4"], [np.uint16], [1023]),
    ],
)
def test_every_code_comes_back(space: str, dtype: type, maximum: int) -> None:
    codes = np.repeat(np.arange(maximum + 1, dtype=dtype)[None, :, None], 3, axis=2)
    linear = colour.linearise(codes, space, maximum=maximum)
    assert linear.dtype == np.float32
    np.testing.assert_array_equal(colour.encode(linear, space, dtype=dtype, maximum=maximum), codes)


def test_eight_bit_plates_are_shown_as_they_are() -> None:
    codes = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    shown = colour.to_display(colour.linearise(codes, "sRGB"))
    np.testing.assert_allclose(shown, codes / 255.0, atol=1e-3)


def test_display_is_ocio_s() -> None:
    linear = np.concatenate([_RAMP, _RAMP * -0.1, _RAMP * 8], axis=1)
    display, view = colour.DISPLAY["display"], colour.DISPLAY["view"]
    transform = ocio.DisplayViewTransform(src=colour.WORKING_SPACE, display=display, view=view)
    expected = np.clip(_by_ocio(linear, transform), 0, 1)
    np.testing.assert_allclose(colour.to_display(linear), expected, atol=1e-3)


def test_other_views_and_their_refusal() -> None:
    toned = colour.to_display(_RAMP * 4, view="ACES 1.0 - SDR Video")
    assert 0.5 < toned[0, 256, 0] < 1.0
    assert "Un-tone-mapped" in colour.views()
    with pytest.raises(UsageError, match="'Film'"):
        colour.to_display(_RAMP, view="Film")


def test_nan_infinity_and_what_is_too_large() -> None:
    odd = np.array([[[np.nan, np.inf, -np.inf]]], np.float32)
    np.testing.assert_array_equal(colour.to_display(odd), [[[0.0, 1.0, 0.0]]])
    half = odd.astype(np.float16)
    np.testing.assert_array_equal(colour.linearise(half, "linear"), odd)
    large = np.array([[1e6, -1e6, np.inf]], np.float32)
    assert colour.encode(large, "linear", dtype=np.float16).tolist() == [[65504, -65504, np.inf]]
    assert colour.encode(odd[0], "sRGB", dtype=np.uint8).tolist() == [[0, 255, 0]]


def test_names() -> None:
    names = {"srgb": "sRGB", "Rec709": "Rec.709", "LOG": "Cineon", "lin": "linear", "acescg": "ACEScg"}
    assert {name: colour.resolve(name) for name in names} == names
    with pytest.raises(UsageError, match="'mud'"):
        colour.resolve("mud")
