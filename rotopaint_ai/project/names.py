"""Shapes under the names that an artist has given them. Standard library only.

A shape keeps its own name, by which models, human keys and settings know it; a given name is what screens show and what
exchange files carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes.roto import RotoDocument

LONGEST = 100
_BAD = frozenset('/\\:*?"<>|{}[]$#;')  # what file names and scripts of other programs do not take


def with_name(names: Mapping[str, str], document: RotoDocument, shape: str, given: str) -> dict[str, str]:
    """Given names with another one for a shape; its own name, or nothing, takes the given one back.

    Raises: UsageError for a name that another shape has, or that files and other programs cannot hold.
    """
    given = given.strip()
    others = {_folded(names.get(each.name, each.name)) for each in document.shapes if each.name != shape}
    left = {name: text for name, text in names.items() if name != shape}
    wanted = given or shape
    if _folded(wanted) in others:
        raise UsageError(f"{shape}: another shape is called {wanted}; choose a name that none has")
    if given in ("", shape):
        return left
    return dict(sorted({**left, shape: checked_name(shape, given)}.items()))


def checked_name(what: str, given: str) -> str:
    """A name without blanks around it. Raises: UsageError for one that files and other programs cannot hold."""
    given = given.strip()
    bad = sorted({letter for letter in given if letter in _BAD or not letter.isprintable()})
    if bad or not 0 < len(given) <= LONGEST or given.startswith("."):
        why = f"holds {bad[0]!r}" if bad else "begins with a dot" if given.startswith(".") else f"is {len(given)} long"
        raise UsageError(f"{what}: the name {why}; take letters, digits, spaces, _ or -, at most {LONGEST}")
    return given


def _folded(name: str) -> str:
    """Equal for names that become one in a file: Nuke knows no spaces, some disks no capitals."""
    return name.casefold().replace(" ", "_")


def renamed(document: RotoDocument, names: Mapping[str, str]) -> RotoDocument:
    """The document with its shapes under their given names, as it is handed to others.

    Where a given name has become another shape's own, as by another pack, all keep their own: files want them apart.
    """
    shown = {_folded(names.get(shape.name, shape.name)) for shape in document.shapes}
    if len(shown) < len(document.shapes) or not any(shape.name in names for shape in document.shapes):
        return document
    shapes = tuple(replace(shape, name=names.get(shape.name, shape.name)) for shape in document.shapes)
    return replace(document, shapes=shapes)
