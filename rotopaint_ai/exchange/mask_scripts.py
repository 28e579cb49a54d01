"""What the scripts and dumps of After Effects and Blender share: JSON between two marks, with plate size and rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import parsing


class MaskScript(NamedTuple):
    """How a host's script is recognised: its marks around the data, their format, and the host's name for messages."""

    begin: str
    end: str
    format: str
    host: str


def read_data(text: str, script: MaskScript, where: str) -> dict[str, Any]:
    """The data in a script that this product wrote, or of a dump from the host. Raises DocumentError."""
    inner = text.split(script.begin, 1)[1].partition(script.end)[0] if script.begin in text else text
    wanted = f"a script written by this product, or its dump of masks in {script.host}"
    data = parsing.json_of(inner, where, wanted=wanted)
    if not isinstance(data, dict) or data.get("format") != script.format:
        raise DocumentError(
            f"{where}: does not hold masks of {script.host}; run the dump script there and read the file that it writes"
        )
    return data


def read_size(data: Mapping[str, Any], where: str, width: int | None, height: int | None) -> tuple[int, int]:
    """(width, height) of the plate. Raises: DocumentError where they are no sizes or differ from those given."""
    size = (
        parsing.parse_integer(f"{where}: width", data.get("width")),
        parsing.parse_integer(f"{where}: height", data.get("height")),
    )
    return parsing.plate_size(where, size, width, height)


def read_rates(data: Mapping[str, Any], where: str) -> tuple[float, float]:
    """Pixel aspect and frames per second. Raises DocumentError where one is not above 0."""
    aspect, fps = (parsing.finite_number(f"{where}: {name}", data.get(name)) for name in ("pixel_aspect", "fps"))
    if aspect <= 0 or fps <= 0:
        raise DocumentError(f"{where}: pixel aspect {aspect:g} and frame rate {fps:g}; both must be above 0")
    return aspect, fps


def read_rows(data: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """The objects in a list of the data; none where there is no such list. Raises DocumentError for anything else."""
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DocumentError(f"{where}: {name} is not a list of objects; write the file again")
    return found
