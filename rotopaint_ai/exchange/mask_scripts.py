"""What the scripts and dumps of After Effects and Blender share: JSON between two marks, with plate size and rates."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import parsing
from rotopaint_ai.exchange.linear_keys import visible_between


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


def read_opacity(
    row: Mapping[str, Any], key: str, full: float, name: str, span: tuple[int, int], where: str, warnings: list[str]
) -> dict[int, bool]:
    """The hidden frames of a shape from its opacity, `full` where it is opaque; what fades is reported.

    Rows are [frame, value, kind], with None for always; kind is "hold" or "eased". Without one (dumps of earlier
    versions), it is not known whether keys hold; those of our own script do. Raises DocumentError.
    """
    keys: list[tuple[int, float, bool | None]] = []
    for each in row.get(key) or []:
        if not isinstance(each, list) or len(each) not in (2, 3):
            raise DocumentError(f"{where}: opacity is {str(each)[:30]}; wanted [frame, value, kind]")
        value = parsing.finite_number(f"{where}: opacity", each[1])
        frame = span[0] if each[0] is None else parsing.whole_frame(f"{where}: a key's frame", each[0], name, warnings)
        unstated = None if row.get("is_dumped") else True
        keys.append((frame, value, each[2] == "hold" if len(each) == 3 else unstated))
    keys.sort(key=lambda each: each[0])
    is_faint = any(0.0 < value < full for _, value, _ in keys)
    fades = [
        holds
        for (frame, value, holds), (after, other, _) in pairwise(keys)
        if frame == after or (not holds and after > frame + 1 and value != other)
    ]
    if is_faint or any(holds is not None for holds in fades):
        warnings.append(f"{name}: is partly transparent at times; the document draws it opaque")
    if None in fades:
        warnings.append(
            f"{name}: is partly transparent at times, unless its opacity keys hold; the document shows or hides it "
            "from each of them on"
        )
    return visible_between([(frame, value > 0.0) for frame, value, _ in keys], *span)
