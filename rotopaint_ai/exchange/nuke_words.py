"""The text of a `curves` value as nested words: braces are lists, everything else is words.

Standard library only. The points of a shape stay text until they are asked for: as words, those of a long shot take
more memory than all else.
"""

from __future__ import annotations

import re
from typing import Any

from rotopaint_ai.errors import DocumentError

_TOKEN = re.compile(r'[{}]|"(?:[^"\\]|\\.)*"|(?:\\.|[^{}\s\\])+', re.DOTALL)
_FLAT = r'[^{}"\\]*'
_KEYS = rf"\{{{_FLAT}\}}{_FLAT}"
_CURVES = rf"\{{{_FLAT}(?:{_KEYS})*\}}{_FLAT}"
_POINT = re.compile(rf"\{{{_FLAT}(?:{_CURVES})*\}}")


def nest(text: str, where: str, *, folded: bool = False) -> list[Any]:
    """The words of a text. Raises DocumentError on braces without their other.

    `folded`: entries behind the times of a `px` list may stay one text in braces each, for `unfolded`; those with
    quotes, backslashes or deeper braces never do.
    """
    top: list[Any] = []
    current, stack = top, []
    tokens = _TOKEN.finditer(text)
    while (found := next(tokens, None)) is not None:  # one after the other: a long shot has millions
        token = found[0]
        if token == "{":
            point = _POINT.match(text, found.start()) if folded and _is_behind_times(current) else None
            if point is not None:
                current.append(point[0])
                tokens = _TOKEN.finditer(text, point.end())
                continue
            inner: list[Any] = []
            current.append(inner)
            stack.append(current)
            current = inner
        elif token == "}":
            if not stack:
                raise DocumentError(f"{where}: a brace closes that was never opened")
            current = stack.pop()
        else:
            current.append(token)
    if stack:
        raise DocumentError(f"{where}: {len(stack)} braces are never closed; the file may be cut short")
    return top


def _is_behind_times(block: list[Any]) -> bool:
    return len(block) > 1 and block[0] == "px"


def unfolded(block: Any, where: str) -> Any:
    """An entry as lists and words; no word of its own begins with a brace."""
    return nest(block, where)[0] if isinstance(block, str) and block.startswith("{") else block
