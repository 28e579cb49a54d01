"""Lua tables as Fusion and Resolve save them: parsed into plain values, never evaluated.

Standard library only. A constructor such as `Input { Value = 1, }` becomes a table that records its kind. `ordered()
{ }` is a table whose order matters; here all tables keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Union

from rotopaint_ai.errors import DocumentError

Value = Union[str, float, bool, None, "LuaTable"]
DEEPEST: Final = 100
_TOKEN: Final = re.compile(
    r"""[\s]+|--\[\[.*?\]\]|--[^\n]*
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))
    |(?P<word>[A-Za-z_][\w.]*)
    |(?P<sign>[{}\[\]()=,;])""",
    re.VERBOSE | re.DOTALL,
)
_LINE_COMMENT: Final = re.compile(r"--[^\n]*")
RESERVED: Final = re.compile(  # reserved words, which cannot be names of fields
    "and|break|do|else|elseif|end|false|for|function|goto|if|in|local|nil|not|or|repeat|return|then|true|until|while"
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(slots=True)
class LuaTable:
    """A table: the name of its constructor (or empty), named or numbered fields, and items without a name."""

    kind: str = ""
    fields: dict[str | float, Value] = field(default_factory=dict)
    items: list[Value] = field(default_factory=list)

    def table(self, name: str | float) -> LuaTable:
        """The table in a field; an empty one where the field is missing or something else."""
        found = self.fields.get(name)
        return found if isinstance(found, LuaTable) else LuaTable()

    def text(self, name: str) -> str:
        """The text in a field, or the empty text."""
        found = self.fields.get(name)
        return found if isinstance(found, str) else ""


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    at: int


class _Reader:
    """Tokens with one token of lookahead."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self._tokens = _tokens(text, where)
        self.next: _Token | None = next(self._tokens, None)

    def take(self, wanted: str = "") -> _Token:
        token = self.next
        if token is None or (wanted and token.text != wanted):
            raise self.error(f"wanted {wanted or 'a value'}, found {token.text if token else 'the end'}", token)
        self.next = next(self._tokens, None)
        return token

    def sees(self, *signs: str) -> bool:
        return self.next is not None and self.next.kind == "sign" and self.next.text in signs

    def error(self, what: str, token: _Token | None) -> DocumentError:
        line = self.text.count("\n", 0, token.at if token else len(self.text)) + 1
        return DocumentError(f"{self.where}: line {line}: {what[:80]}; copy the nodes out of Fusion again")


def loads(text: str, *, where: str = "setting") -> LuaTable:
    """The table in a text that holds exactly one. Raises DocumentError for anything else."""
    reader = _Reader(text, where)
    value = _read_value(reader, 0)
    if not isinstance(value, LuaTable) or reader.next is not None:
        raise reader.error("wanted one table { ... }", reader.next)
    return value


def _tokens(text: str, where: str) -> Iterator[_Token]:
    at, last_close = 0, text.rfind("]]")
    while at < len(text):
        is_open = text.startswith("--[[", at) and at > last_close  # an unclosed comment: search for its end only once
        found = _LINE_COMMENT.match(text, at) if is_open else _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise DocumentError(f"{where}: line {line}: {text[at : at + 10]!r} is not a Fusion table; copy it again")
        if found.lastgroup:
            yield _Token(found.lastgroup, found[0], at)
        at = found.end()


def _read_value(reader: _Reader, depth: int) -> Value:
    if depth > DEEPEST:
        raise reader.error("tables are nested too deeply", reader.next)
    if reader.sees("{"):
        return _read_table(reader, "", depth)
    token = reader.take()
    if token.kind == "string":
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token.text[1:-1], flags=re.DOTALL)
    if token.kind == "number":
        return _read_number(reader, token)
    if token.kind != "word":
        raise reader.error(f"wanted a value, found {token.text}", token)
    return _read_lua_word(reader, token, depth)


def _read_lua_word(reader: _Reader, token: _Token, depth: int) -> Value:
    """A word: true, false, nil, or a table's constructor."""
    if token.text in ("true", "false", "nil"):
        return {"true": True, "false": False, "nil": None}[token.text]
    if reader.sees("("):
        reader.take("(")
        reader.take(")")
    if reader.sees("{"):
        return _read_table(reader, token.text, depth)
    return token.text


def _read_table(reader: _Reader, kind: str, depth: int) -> LuaTable:
    table = LuaTable("" if kind == "ordered" else kind)
    reader.take("{")
    while not reader.sees("}"):
        name = _read_field_name(reader)
        if name is None:
            value = _read_value(reader, depth + 1)
            if isinstance(value, str) and reader.sees("="):
                reader.take("=")
                table.fields[value] = _read_value(reader, depth + 1)
            else:
                table.items.append(value)
        else:
            table.fields[name] = _read_value(reader, depth + 1)
        if reader.sees(",", ";"):
            reader.take()
    reader.take("}")
    return table


def _read_field_name(reader: _Reader) -> str | float | None:
    """The `[key] =` before a value; None without one (a plain name is parsed together with its value)."""
    if not reader.sees("["):
        return None
    reader.take("[")
    token = reader.take()
    if token.kind not in ("string", "number"):
        raise reader.error(f"wanted a number or a text in [ ], found {token.text}", token)
    reader.take("]")
    reader.take("=")
    return token.text[1:-1] if token.kind == "string" else _read_number(reader, token)


def _read_number(reader: _Reader, token: _Token) -> float:
    """A number, decimal or hexadecimal."""
    try:
        return float(int(token.text, 16) if "x" in token.text.lower() else token.text)
    except OverflowError as error:
        raise reader.error(f"{token.text[:20]} is too large a number", token) from error


def quote(text: str) -> str:
    """A text as a quoted Lua string."""
    kept = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'"{kept}"'
