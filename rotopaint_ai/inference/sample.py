"""The sample shot that ships with the models."""

from __future__ import annotations

import json
from pathlib import Path

from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.pack import pack_places

SAMPLE = "sample"
CROP_FILE = "crop.json"


def find_sample() -> Path:
    """The folder of the sample shot. Raises PackError where it is not installed."""
    for place in pack_places():
        if (place / SAMPLE / CROP_FILE).is_file():
            return place / SAMPLE
    raise PackError("the sample shot is not installed; reinstall the product with its models")


def read_crops(path: Path) -> tuple[str, ...]:
    """The crop of a sample: `{"crop": [X, Y, W, H], "frame": FRAME}`, the frame may be left out.

    Raises: PackError on anything else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        x, y, width, height = (float(number) for number in content["crop"])
        frame = f"{int(content['frame'])}:" if "frame" in content else ""
        return (f"{frame}{x:g},{y:g},{width:g},{height:g}",)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PackError(f"{path}: not a crop ({error!r}); reinstall the product with its models") from error
