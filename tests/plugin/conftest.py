"""A stand-in for Nuke: nodes, selection, undo and menus as far as the plugin uses them, and no heavy libraries."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

EMPTY_CURVES = "{{{v x3f99999a}\n {f 0}\n {n\n  {layer Root\n   {f 2097152}\n   {t x42000000 x41c00000}\n   {a}}}}}"


class Knob:
    """A knob's value; the curves knob keeps its script and counts how often it was told to change."""

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


class Node:
    """A node of the stand-in."""

    def __init__(self, kind: str, name: str, **knobs: Any) -> None:
        self.kind, self._name = kind, name
        self._knobs = {key: Knob(value) for key, value in knobs.items()}
        self._input: Node | None = None
        self.selected = False

    def __getitem__(self, name: str) -> Knob:
        return self._knobs[name]

    def knob(self, name: str) -> Knob | None:
        return self._knobs.get(name)

    def name(self) -> str:
        return self._name

    fullName = name

    def setName(self, name: str, uncollide: bool = True) -> None:
        self._name = name

    def input(self, index: int) -> Node | None:
        return self._input

    def setInput(self, index: int, node: Node | None) -> None:
        self._input = node

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
    """The module `nuke`. `steps` are the undo steps that an artist would see."""

    def __init__(self) -> None:
        super().__init__("nuke")
        self.nodes: list[Node] = []
        self.steps: list[str] = []
        self.cancelled = 0
        self.curves = EMPTY_CURVES
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
        return node

    def createNode(self, kind: str, inpanel: bool = True) -> Node:
        assert not inpanel
        node = self.add(Node(kind, kind + "1", curves=self.curves))
        node.selected = True
        return node

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
    """`import nuke` gives the stand-in."""
    nuke = FakeNuke()
    monkeypatch.setitem(sys.modules, "nuke", nuke)
    monkeypatch.delitem(sys.modules, "rotopaint_nuke.host", raising=False)
    yield nuke
    sys.modules.pop("rotopaint_nuke.host", None)
