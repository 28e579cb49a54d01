"""Curves that a Nuke script holds once for each view of a stereo pair, and the choice of the one that is read.

Standard library only. Foundry's description says that a curve may be listed under a view's name and that `-` is the
default view. No such file was available for a test, so two forms of the list are accepted: names and curves
alternating, or a list of pairs.
"""

from __future__ import annotations

import re
from typing import Any, Final

from rotopaint_ai.exchange.nuke_tree import Views

_FIRST: Final = ("-", "default", "main", "left", "l", "L")  # views in order of preference
_NAME: Final = re.compile(r"-|[^\W\d]\w*")
_NUMBERS: Final = re.compile(r"x[0-9a-fA-F]{8}|inf|infinity|nan", re.IGNORECASE)


def split(block: list[Any]) -> tuple[Any, Views] | None:
    """The curve of the preferred view, and the data of all views; None where a block holds no curves by view."""
    pairs = _name_value_pairs(block)
    if pairs is None:
        return None
    names = tuple(name for name, _ in pairs)
    read = next((name for name in _FIRST if name in names), names[0])
    return dict(pairs)[read], Views(names, read, _block_text(block))


def _name_value_pairs(block: list[Any]) -> list[tuple[str, Any]] | None:
    if all(isinstance(each, list) and len(each) == 2 and _is_view(each[0]) for each in block):
        return [(name, curve) for name, curve in block]
    if len(block) % 2 == 0 and all(_is_view(name) for name in block[::2]):
        return list(zip(block[::2], block[1::2]))
    return None


def _is_view(word: Any) -> bool:
    return isinstance(word, str) and bool(_NAME.fullmatch(word)) and not _NUMBERS.fullmatch(word)


def _block_text(block: Any) -> str:
    return block if isinstance(block, str) else "{" + " ".join(map(_block_text, block)) + "}"
