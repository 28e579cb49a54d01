"""A fake of Nuke, after its Python reference: nodes, knobs, formats, selection and undo.

A missing knob raises NameError by index, and is None by `knob`. `uncollide` numbers names. A new node takes the
selected node as its input and becomes selected. Undo goes back by an artist's steps.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

EMPTY_CURVES = "{{{v x3f99999a}\n {f 0}\n {n\n  {layer Root\n   {f 2097152}\n   {t x42000000 x41c00000}\n   {a}}}}}"


KNOBS: dict[str, dict[str, Any]] = {
    "RotoPaint": {"output": "rgba"},
    "Read": {"file": "", "first": 1, "last": 1, "origfirst": 1, "origlast": 1, "colorspace": "default", "raw": False},
    "Merge2": {"operation": "over", "maskChannelMask": "none"},
}


class Knob:
    """A knob's value; the curves knob stores its script and counts how often `changed` was called."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.n_changed = 0

    def value(self) -> Any:
        return self._value

    getValue = value

    def setValue(self, value: Any) -> None:
        self._value = value

    def toScript(self) -> str:
        return str(self._value)

    def fromScript(self, text: str) -> None:
        self._value = text

    def changed(self) -> None:
        self.n_changed += 1


class Format:
    """A node's format."""

    def __init__(self, width: int, height: int, aspect: float = 1.0) -> None:
        self._facts = (width, height, aspect)

    def width(self) -> int:
        return int(self._facts[0])

    def height(self) -> int:
        return int(self._facts[1])

    def pixelAspect(self) -> float:
        return float(self._facts[2])


class Node:
    """A node of the fake."""

    def __init__(self, kind: str, name: str, **knobs: Any) -> None:
        self.kind, self._name = kind, name
        self._knobs = {key: Knob(value) for key, value in knobs.items()}
        self._inputs: dict[int, Node | None] = {}
        self.selected = False
        self.size = Format(64, 48)
        self.owner: FakeNuke | None = None

    def __getitem__(self, name: str) -> Knob:
        if name not in self._knobs:
            raise NameError(f"knob {name} does not exist")
        return self._knobs[name]

    def Class(self) -> str:
        return self.kind

    def format(self) -> Format:
        return self.size

    def knob(self, name: str) -> Knob | None:
        return self._knobs.get(name)

    def name(self) -> str:
        return self._name

    fullName = name

    def setName(self, name: str, uncollide: bool = True, updateExpressions: bool = False) -> None:
        taken = {node.name() for node in self.owner.nodes if node is not self} if self.owner else set()
        free, count = name, 0
        while uncollide and free in taken:
            count += 1
            free = f"{name}{count}"
        self._name = free

    def input(self, index: int) -> Node | None:
        return self._inputs.get(index)

    def setInput(self, index: int, node: Node | None) -> bool:
        self._inputs[index] = node
        return True

    def setSelected(self, on: bool) -> None:
        self.selected = on

    def setXYpos(self, x: int, y: int) -> None:
        self.place = (x, y)

    def xpos(self) -> int:
        return 100

    def ypos(self) -> int:
        return 200

    def screenHeight(self) -> int:
        return 80


class FakeNuke(types.ModuleType):
    """A fake of the module `nuke`. `steps`: the undo steps that an artist would see."""

    def __init__(self) -> None:
        super().__init__("nuke")
        self.nodes: list[Node] = []
        self.steps: list[str] = []
        self.cancelled = 0
        self.curves = EMPTY_CURVES
        self.messages: list[str] = []
        outer = self

        class Undo:
            def begin(self, name: str) -> None:
                self.name = name
                self.before = list(outer.nodes)

            def end(self) -> None:
                outer.steps.append(self.name)

            def cancel(self) -> None:
                outer.nodes = self.before
                outer.cancelled += 1

        self.Undo = Undo

    def add(self, node: Node) -> Node:
        self.nodes.append(node)
        node.owner = self
        return node

    def createNode(self, node: str, knobs: str = "", inpanel: bool = True) -> Node:
        assert not inpanel, "an open properties panel would steal the artist's screen"
        made = self.add(Node(node, node, **{**KNOBS.get(node, {}), **self._curves(node)}))
        made.setName(node + "1")
        before = self.selectedNodes()
        made.setInput(0, before[0] if before else None)
        for each in before:
            each.selected = False
        made.selected = True
        return made

    def _curves(self, kind: str) -> dict[str, str]:
        return {"curves": self.curves} if kind in ("Roto", "RotoPaint") else {}

    def toNode(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name() == name), None)

    def message(self, text: str) -> None:
        self.messages.append(text)

    def allNodes(self, kind: str | None = None) -> list[Node]:
        return [node for node in self.nodes if kind in (None, node.kind)]

    def selectedNodes(self, kind: str | None = None) -> list[Node]:
        return [node for node in self.allNodes(kind) if node.selected]

    def exists(self, name: str) -> bool:
        return any(node.name() == name for node in self.nodes)

    def filename(self, node: Node) -> str:
        return str(node["file"].value())


@pytest.fixture
def fake_nuke(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNuke]:
    """Makes `import nuke` return the fake."""
    nuke = FakeNuke()
    monkeypatch.setitem(sys.modules, "nuke", nuke)
    for name in ("host", "batch"):
        monkeypatch.delitem(sys.modules, f"rotopaint_nuke.{name}", raising=False)
    yield nuke
    for name in ("host", "batch"):
        sys.modules.pop(f"rotopaint_nuke.{name}", None)
