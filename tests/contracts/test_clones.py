"""Finds functions whose bodies are equal but for the names of their variables: one of them is enough."""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .test_names import product

FEWEST = 4  # statements; shorter functions may be equal by chance

Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Renaming(ast.NodeTransformer):
    """Numbers a function's parameters and variables in the order in which they appear; other names stay."""

    def __init__(self, own: Iterable[str]) -> None:
        self._numbers: dict[str, str] = {}
        self._own = frozenset(own)

    def _number(self, name: str) -> str:
        return self._numbers.setdefault(name, f"v{len(self._numbers)}") if name in self._own else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._number(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._number(node.arg), None)


def _body_of(function: Function) -> Sequence[ast.stmt]:
    """The statements of a function without its docstring."""
    return function.body if ast.get_docstring(function) is None else function.body[1:]


def _own_names(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def normal_body(function: Function) -> str | None:
    """A function's body with numbered variables; None for one of fewer than FEWEST statements."""
    body = _body_of(function)
    if sum(isinstance(node, ast.stmt) for part in body for node in ast.walk(part)) < FEWEST:
        return None
    renaming = _Renaming(_own_names(function))
    renaming.visit(copy.deepcopy(function.args))
    return "\n".join(ast.dump(renaming.visit(copy.deepcopy(part))) for part in body)


def clones(texts: Mapping[str, str]) -> list[list[str]]:
    """Groups of functions with equal bodies, as `module:line name`."""
    places = defaultdict(list)
    for module, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, Function):
                where = f"{module}:{node.lineno} {node.name}"
                body = normal_body(node)
                if body is not None:
                    places[body].append(where)
    return [found for found in places.values() if len(found) > 1]


def test_equal_bodies_are_found_whatever_their_variables_are_called() -> None:
    one = 'def one(a, b):\n    """Of one."""\n    c = a + b\n    if c:\n        c = len(a)\n    return c\n'
    other = "def other(x, y):\n    z = x + y\n    if z:\n        z = len(x)\n    return z\n"
    assert clones({"p.a": one, "p.b": other}) == [["p.a:1 one", "p.b:1 other"]]
    assert clones({"p.a": one, "p.b": other.replace("x + y", "y + x")}) == []
    assert clones({"p.a": one, "p.b": other.replace("len", "sum")}) == []
    assert clones({"p.a": "def one(a):\n    return a\n", "p.b": "def other(b):\n    return b\n"}) == []


def test_no_two_functions_have_the_same_body() -> None:
    assert clones(product()) == [], "keep one of each, where both may import it"
