"""The text of a `curves` value as nested words: braces become lists, everything else words.

Standard library only. The points of a shape stay text until they are needed, because as words the points of a long shot
take more memory than everything else.
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
    """The words of a text. Raises DocumentError on unmatched braces.

    `folded`: each entry after the times of a `px` list may stay one text in braces, to be parsed by `unfold`. Entries
    with quotes, backslashes or deeper braces are always parsed.
    """
    top: list[Any] = []
    current, stack = top, []
    tokens = _TOKEN.finditer(text)
    while (found := next(tokens, None)) is not None:  # one at a time: a long shot has millions
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
                raise DocumentError(f"{where}: there is a closing brace without an opening brace")
            current = stack.pop()
        else:
            current.append(token)
    if stack:
        raise DocumentError(f"{where}: {len(stack)} braces are never closed; the file may be cut short")
    return top


def _is_behind_times(block: list[Any]) -> bool:
    return len(block) > 1 and block[0] == "px"


def unfold(block: Any, where: str) -> Any:
    """A folded entry as lists and words; only folded text begins with a brace."""
    return nest(block, where)[0] if isinstance(block, str) and block.startswith("{") else block
