"""From plates to what the screen shows: values by closed form, errors as replies."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.plates.plate import Frame
from rotopaint_ui.engine.decoder import Decoder, develop, serve_frames

from .conftest import FRAMES, HEIGHT, WIDTH, code, write_plate

PLAIN = (0.0, 1.0, "Un-tone-mapped")


def frame_of(
    codes: np.ndarray, colourspace: str, origin: tuple[int, int] = (0, 0), size: tuple[int, int] = (4, 2)
) -> Frame:
    maximum = None if codes.dtype.kind == "f" else int(np.iinfo(codes.dtype).max)
    return Frame(1, codes, origin, *size, colourspace, maximum, None, None, "")


def srgb(linear: float) -> float:
    """IEC 61966-2-1, above its linear part."""
    return float(1.055 * linear ** (1 / 2.4) - 0.055)


def test_an_8_bit_plate_is_shown_code_for_code() -> None:
    codes = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    assert np.array_equal(develop(frame_of(codes, "sRGB"), PLAIN), codes)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_exposure_and_gamma_act_on_light_and_screen(kind: type) -> None:
    codes = np.full((2, 4, 3), 0.1, kind)
    shown = develop(frame_of(codes, "linear"), (1.0, 2.0, PLAIN[2]))
    assert np.abs(shown.astype(int) - round(255 * srgb(0.2) ** 0.5)).max() <= 1


def test_other_views_go_through_ocio() -> None:
    codes = np.full((2, 4, 3), 0.18, np.float32)
    raw = develop(frame_of(codes, "linear"), (0.0, 1.0, "Raw"))
    assert np.abs(raw.astype(int) - round(0.18 * 255)).max() <= 1


def test_a_data_window_lies_at_its_place_and_is_cut_to_the_display_window() -> None:
    codes = np.full((2, 3, 1), 200, np.uint8)
    shown = develop(frame_of(codes, "sRGB", origin=(2, -1)), PLAIN)
    assert shown.shape == (2, 4, 3)
    assert (shown[..., 0] == [[0, 0, 200, 200], [0, 0, 0, 0]]).all()


def test_infinite_and_undefined_pixels_are_shown_as_something() -> None:
    codes = np.array([[[np.inf, np.nan, -np.inf]] * 4] * 2, np.float32)
    shown = develop(frame_of(codes, "linear"), PLAIN)
    assert (shown[..., 0] == 255).all()
    assert (shown[..., 2] == 0).all()


def ask(*requests: dict[str, object]) -> list[tuple[dict[str, object], bytes]]:
    """The process's replies to a whole input."""
    lines = io.BytesIO(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    replies = io.BytesIO()
    serve_frames(lines, replies)
    replies.seek(0)
    found = []
    while line := replies.readline():
        facts = json.loads(line)
        found.append((facts, replies.read(facts["bytes"])))
    return found


def test_a_whole_conversation(plate: str) -> None:
    look = list(PLAIN)
    opened, frame, hole, thumb, stranger = ask(
        {"ask": "open", "plate": "plate", "source": plate, "ticket": 7},
        {"ask": "frame", "plate": "plate", "frame": 1003, "look": look},
        {"ask": "frame", "plate": "plate", "frame": 1004, "look": look},
        {"ask": "thumb", "plate": "plate", "frame": 1001, "look": look, "height": 24},
        {"ask": "frame", "plate": "other", "frame": 1001, "look": look},
    )
    facts = opened[0]
    assert facts["frames"] == list(FRAMES)
    assert facts["missing"] == [1004]
    assert facts["ticket"] == 7
    picture = np.frombuffer(frame[1], np.uint8).reshape(HEIGHT, WIDTH, 3)
    assert picture[20, 20].tolist() == [code(1003)] * 3
    assert picture[5, 10].tolist() == [255] * 3
    assert "1004" in str(hole[0]["error"])
    assert (thumb[0]["width"], thumb[0]["height"], len(thumb[1])) == (32, 24, 32 * 24 * 3)
    assert "not open" in str(stranger[0]["error"])


def test_a_plate_that_cannot_be_opened_keeps_the_open_one(plate: str, tmp_path: Path) -> None:
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": "plate", "source": plate})
    reply, _ = decoder.answer({"ask": "open", "plate": "plate", "source": str(tmp_path / "nothing.####.exr")})
    assert "\n" not in reply["error"]
    facts, picture = decoder.answer({"ask": "frame", "plate": "plate", "frame": 1001, "look": list(PLAIN)})
    assert len(picture) == facts["width"] * facts["height"] * 3


def test_a_plate_rendered_again_is_read_again(plate: str, tmp_path: Path) -> None:
    decoder = Decoder()
    request = {"ask": "frame", "plate": "plate", "frame": 1001, "look": list(PLAIN)}
    decoder.answer({"ask": "open", "plate": "plate", "source": plate})
    before = decoder.answer(request)[1]
    write_plate(tmp_path / "shot" / "plates", add=50)
    decoder.answer({"ask": "open", "plate": "plate", "source": plate})
    assert decoder.answer(request)[1][-1] == before[-1] + 50


def test_packs_are_those_installed_and_those_in_folders_that_are_still_there(tmp_path: Path) -> None:
    for name in ("pip_pack", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "pip_pack" / "card.json").touch()
    folders = [str(tmp_path / name) for name in ("pip_pack", "empty", "gone")]
    facts, _ = Decoder().answer({"ask": "packs", "folders": folders})
    assert "puppet" in facts["packs"]
    assert facts["folders"] == folders[:1]
