"""The roto nodes of a Nuke script, stored word for word in a document's metadata, so that they can be written back.

Standard library only. A document's metadata holds the nodes under `nuke`; a shape's metadata holds its place in them.
Metadata comes from files that anybody may have made. So text that could run code in Nuke (callbacks, Python knobs,
anything in Tcl's brackets) is never stored, and a document that contains such text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import MOST_METADATA
from rotopaint_ai.exchange.nuke_script import ScriptNode, ScriptWord, closing_brace, knob_spans, with_knob
from rotopaint_ai.exchange.nuke_size import NODE_KINDS, NamedTree, PlateSizes
from rotopaint_ai.shapes.roto import Metadata, RotoShape

NAMESPACE: Final = "nuke"
KEPT: Final = "not drawn here; it is kept only for Nuke"
_MOST_KEPT: Final = MOST_METADATA // 2  # JSON needs more characters for the same text
_RANGE = re.compile(r"^# rotopaint frames (-?\d{1,9}) (-?\d{1,9})$", re.MULTILINE)
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
_FORMAT = re.compile(r"[\w. -]*", re.ASCII)
_CALLBACK = re.compile(r"on[A-Z]|before|after|knobChanged|updateUI|autolabel|renderProgress|filenameFilter")
_VALUE_KNOBS = frozenset(map(str, (1, 3, 4, 6, 7, *range(12, 21), 26, 41)))  # `addUserKnob`'s kinds that hold values
# characters that another parser could split or join differently: escaped bytes, other line ends, control characters
_ODD = re.compile(r"\\[0-7xuU]|[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ElementPlace:
    """A shape's place in a script: the name of its node, and its index among the children of each layer around it."""

    node: str
    at: tuple[int, ...]

    def as_metadata(self) -> Metadata:
        """The place as metadata of a shape."""
        return {NAMESPACE: {"node": self.node, "at": list(self.at)}}


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A roto node as in its script; `format` is set for a node that takes its size from elsewhere."""

    kind: str
    groups: tuple[str, ...]
    body: str
    format: str = ""

    @property
    def text(self) -> str:
        """The node within its groups, as text of a script."""
        body = with_knob(self.body, "format", f'"{self.format}"') if self.format else self.body
        opened = "".join(f"Group {{\n name {name}\n}}\n" for name in self.groups)
        start = opened or "push $cut_paste_input\n"
        return f"{start}{self.kind} {{{body}}}\n" + "end_group\n" * len(self.groups)


def _runs_code(text: str, words: Sequence[ScriptWord]) -> bool:
    """Whether a knob may run code when Nuke reads it; true for every knob not known to be harmless."""
    name = words[0].text.strip()
    is_user_code = name == "addUserKnob" and _node_kind(words[1:]) not in _VALUE_KNOBS
    is_odd = name.startswith("#") or bool(_ODD.search(text))
    return "[" in text or is_odd or bool(_CALLBACK.match(name)) or is_user_code


def _node_kind(words: Sequence[ScriptWord]) -> str:
    """The first word of the argument of `addUserKnob`."""
    return next((part for word in words[:1] for part in word.text.split()), "")


def _harmless(body: str) -> tuple[str, list[str]]:
    """A node's body without the knobs that may run code, and the names of those knobs."""
    kept, dropped, at = [], [], 0
    for start, end, words in knob_spans(body):
        if _runs_code(body[start:end], words):
            kept.append(body[at:start])
            dropped.append(words[0].text)
            at = end
    return "".join([*kept, body[at:]]), dropped


def kept_nodes(
    nodes: Sequence[ScriptNode], trees: Sequence[NamedTree], sizes: PlateSizes, aspect: float, losses: list[str]
) -> Metadata:
    """The roto nodes of a script as a document's metadata; empty where they are too large, with a line in `losses`."""
    named = {id(node): name for name, _, node in trees if node is not None}
    rows = []
    for node in nodes:
        if node.kind not in NODE_KINDS or not node.text("curves").strip():
            continue
        body, dropped = _harmless(node.body.replace("\r\n", "\n"))
        if "curves" in dropped:
            losses.append(f"{node.full_name}: its curves may run code; the node is not kept for Nuke")
            continue
        if dropped:
            losses.append(
                f"{node.full_name}: knobs that may run code are not kept: {', '.join(dict.fromkeys(dropped))}"
            )
        row: dict[str, Any] = {"kind": node.kind, "groups": list(node.groups), "body": body}
        name = named.get(id(node))
        if name is not None and (name in sizes.unstated or not node.text("format")):
            width, height = sizes.of_node[name]
            row["format"] = f"{width} {height} 0 0 {width} {height} {aspect:.12g} "
        rows.append(row)
    size = sum(len(row["body"]) for row in rows)
    if size > _MOST_KEPT:
        losses.append(
            f"{size >> 20} MB of roto nodes are more than the {_MOST_KEPT >> 20} MB that a document can store word for "
            "word: layers, colours, blend modes and strokes will not be written back"
        )
        return {}
    return {NAMESPACE: {"nodes": rows}} if rows else {}


def nodes_in(metadata: Metadata) -> tuple[KeptNode, ...]:
    """The nodes stored in a document. Raises DocumentError where they differ from what `kept_nodes` makes."""
    found = metadata.get(NAMESPACE)
    if found is None:
        return ()
    rows = found.get("nodes") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DocumentError("metadata: nuke does not hold a list of nodes; leave it out")
    return tuple(_node_in(row) for row in rows)


def _node_in(row: Mapping[str, Any]) -> KeptNode:
    kind, groups, body, stated = (row.get(name) for name in ("kind", "groups", "body", "format"))
    stated = "" if stated is None else stated
    texts = [body, stated, *(groups if isinstance(groups, list) else [None])]
    if kind not in NODE_KINDS or not all(isinstance(text, str) for text in texts):
        raise DocumentError(f"metadata: a node of nuke is {str(row)[:60]!r}; wanted kind, groups and body as text")
    assert isinstance(groups, list)
    assert isinstance(body, str)
    assert isinstance(stated, str)
    if closing_brace(f"{{{body}}}", 0) != len(body) + 1:
        raise DocumentError("metadata: a node of nuke has unmatched braces; leave it out")
    if (
        list(groups) != [g for g in groups if _PLAIN.fullmatch(g)]
        or not _FORMAT.fullmatch(stated)
        or _harmless(body)[1]
    ):
        raise DocumentError(f"metadata: a node of nuke may run code ({str(row)[:60]!r}); leave it out")
    return KeptNode(str(kind), tuple(groups), body, stated)


def script_place(shape: RotoShape) -> ElementPlace | None:
    """A shape's place in its script; None for a shape that does not come from a script."""
    found = shape.metadata.get(NAMESPACE)
    node, at = (found.get("node"), found.get("at")) if isinstance(found, dict) else (None, None)
    if not isinstance(node, str) or not isinstance(at, list) or not all(type(index) is int for index in at):
        return None
    return ElementPlace(node, tuple(at))


def range_line(first: int, last: int) -> str:
    """A script's comment that states the frames of a document; `stated_range` reads it."""
    return f"# rotopaint frames {first} {last}\n"


def stated_range(text: str) -> tuple[int, int] | None:
    """The frames that a script states by our comment; None without one."""
    found = _RANGE.search(text)
    first, last = (int(found[1]), int(found[2])) if found else (1, 0)
    return (first, last) if first <= last else None
