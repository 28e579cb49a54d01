"""Puts a trained fill into a model pack, and says so on the pack's card.

    python -m rotopaint_ai.training.models.fill.into fill.onnx PACK

Beside `fill.onnx` stands `fill.json`, which its training wrote: command, data, steps and held-out losses go on the card
as `training.fill`, and the card vouches for the new file as for the others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import PackError, RotopaintError
from rotopaint_ai.files import replacing
from rotopaint_ai.inference.pack import CARD, FILL, check_fill_signature, load_pack, write_card
from rotopaint_ai.inference.session import read_signature


def put(model: Path, pack: Path) -> None:
    """Copy a fill into a pack and renew its card. Raises: PackError where one of the two is not what it should be.

    Interrupted between model and card it leaves a pack that is refused; the same call mends it.
    """
    check_fill_signature(read_signature(model), str(model))
    facts, card = _read(model.with_suffix(".json")), _read(pack / CARD)
    with replacing(pack / FILL) as beside:
        shutil.copyfile(model, beside)
    card["training"] = {**card.get("training", {}), "fill": facts}
    write_card(pack, {name: value for name, value in card.items() if name != "files"})
    load_pack(pack)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise PackError(f"{path}: cannot be read ({error}); wanted the JSON that a training writes") from error


def main() -> int:
    """Put it there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="fill.onnx, with fill.json beside it")
    parser.add_argument("pack", type=Path, help="a pack's folder")
    options = parser.parse_args()
    try:
        put(options.model, options.pack)
    except RotopaintError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
