"""Nuke scripts as text: commands, nodes and their knobs, in the Tcl-like form of `.nk` and `.gizmo` files.

Standard library only. Nothing is evaluated: expressions and substitutions stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import MOST_DEEP

_BLANKS = re.compile(r"(?:[ \t\r\f\v]|\\\r?\n)*")
_BREAKS = re.compile(r"[\s;]*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r"(?:\\.|[^\s;\\])+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_GROUPS = ("Group", "LiveGroup", "Gizmo", "Precomp")
_ENDS = "\n;"


@dataclass(frozen=True, slots=True)
class ScriptWord:
    """One word of a command: its text without delimiters, and whether it was in braces."""

    text: str
    braced: bool = False


@dataclass(frozen=True, slots=True)
class ScriptNode:
    """A node of a script: class, knobs in file order (the value is every word after the knob's name)."""

    kind: str
    line: int
    knobs: dict[str, tuple[ScriptWord, ...]] = field(default_factory=dict)
    groups: tuple[str, ...] = ()  # names of the groups around it, outermost first
    body: str = ""  # the text between its braces

    @property
    def name(self) -> str:
        """The node's name; its class where the script states none."""
        return self.text("name") or self.kind

    @property
    def full_name(self) -> str:
        """The name with the names of the groups around it, as Nuke's `fullName`."""
        return ".".join((*self.groups, self.name))

    def text(self, knob: str) -> str:
        """A knob's first word, or the empty text."""
        words = self.knobs.get(knob, ())
        return words[0].text if words else ""


def nodes(text: str, *, where: str = "script") -> Iterator[ScriptNode]:
    """Every node of a script in file order, including nodes in groups. Raises DocumentError on unclosed braces."""
    groups: list[str] = []
    for line, words in commands(text, where=where):
        if len(words) == 1 and words[0].text == "end_group" and groups:
            groups.pop()
        if len(words) != 2 or not words[1].braced or not words[0].text.isidentifier():
            continue
        body = commands(words[1].text, where=f"{where}: line {line}: {words[0].text}")
        node = ScriptNode(
            words[0].text,
            line,
            {knob[0].text: tuple(knob[1:]) for _, knob in body if knob},
            tuple(groups),
            words[1].text,
        )
        if node.kind in _GROUPS:
            groups.append(node.name)
            if len(groups) > MOST_DEEP:
                raise DocumentError(f"{where}: line {line}: more than {MOST_DEEP} nested groups; export fewer nodes")
        yield node


def knob_spans(body: str) -> Iterator[tuple[int, int, list[ScriptWord]]]:
    """Start, end and words of each knob in a node's body. Raises DocumentError on unclosed braces."""
    at = 0
    while (at := _end_of(_BREAKS, body, at)) < len(body):
        words, end = _command(body, at, "node", 0)
        yield at, end, words
        at = end


def with_knob(body: str, knob: str, value: str) -> str:
    """A node's body with a knob's value replaced, or with the knob added first where the node lacks it."""
    for start, end, words in knob_spans(body):
        if words[0].text == knob:
            return f"{body[:start]}{knob} {value}{body[end:]}"
    return f"\n {knob} {value}\n{body.removeprefix(chr(10))}"


def commands(text: str, *, where: str) -> Iterator[tuple[int, list[ScriptWord]]]:
    """Each command of a script with the line on which it starts: its words up to the end of the line or a `;`."""
    at, line, counted = 0, 1, 0
    while True:
        at = _end_of(_BREAKS, text, at)
        if at >= len(text):
            return
        line += text.count("\n", counted, at)
        counted = at
        if text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        words, at = _command(text, at, where, line)
        yield line, words


def _command(text: str, at: int, where: str, line: int) -> tuple[list[ScriptWord], int]:
    words = []
    while at < len(text) and text[at] not in _ENDS:
        word, at = _read_word(text, at, where, line)
        words.append(word)
        at = _end_of(_BLANKS, text, at)
    return words, at


def _read_word(text: str, at: int, where: str, line: int) -> tuple[ScriptWord, int]:
    if text[at] == "{":
        end = closing_brace(text, at)
        if end < 0:
            raise DocumentError(
                f"{where}: line {line}: a brace is never closed; the file may be cut short, save it again"
            )
        return ScriptWord(text[at + 1 : end], True), end + 1
    if text[at] == '"':
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            return ScriptWord(_ESCAPE.sub(r"\1", quoted[1])), quoted.end()
    bare = _BARE.match(text, at)
    if bare is None:  # a lone backslash at the end of the text
        return ScriptWord(text[at]), at + 1
    return ScriptWord(_ESCAPE.sub(r"\1", bare[0])), bare.end()


def closing_brace(text: str, at: int) -> int:
    """The position of the brace that closes the one at `at`; -1 without one. Escaped braces do not count."""
    depth = 0
    for found in _BRACE.finditer(text, at):
        mark = found[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth == 0:
                return found.start()
    return -1


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
