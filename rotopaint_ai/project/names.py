"""The names that artists give to shapes. Standard library only.

A shape keeps its own name, which models, human keys and settings refer to. Screens and exchange files show the given
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes.roto import RotoDocument

LONGEST = 100
_BAD = frozenset('/\\:*?"<>|{}[]$#;')  # characters that file names or other programs' scripts do not allow


def with_name(names: Mapping[str, str], document: RotoDocument, shape: str, given: str) -> dict[str, str]:
    """The given names with a new one for `shape`; an empty name or the shape's own name removes the given name.

    Raises: UsageError for a name that another shape has, or that files and other programs cannot hold.
    """
    given = given.strip()
    others = {_fold_name(names.get(each.name, each.name)) for each in document.shapes if each.name != shape}
    left = {name: text for name, text in names.items() if name != shape}
    wanted, shown = given or shape, names.get(shape, shape)
    if _fold_name(wanted) in others:
        raise UsageError(f"{shown}: another shape is called {wanted}; choose a name that is free")
    if given in ("", shape):
        return left
    return dict(sorted({**left, shape: checked_name(shown, given)}.items()))


def checked_name(what: str, given: str) -> str:
    """A name without blanks around it. Raises: UsageError for a name that files and other programs cannot hold."""
    given = given.strip()
    bad = sorted({letter for letter in given if letter in _BAD or not letter.isprintable()})
    if bad or not 0 < len(given) <= LONGEST or given.startswith("."):
        why = f"holds {bad[0]!r}" if bad else "begins with a dot" if given.startswith(".") else f"is {len(given)} long"
        raise UsageError(f"{what}: the name {why}; take letters, digits, spaces, _ or -, at most {LONGEST}")
    return given


def _fold_name(name: str) -> str:
    """A name folded for comparison: Nuke replaces spaces, and some disks ignore capitals."""
    return name.casefold().replace(" ", "_")


def rename_shapes(document: RotoDocument, names: Mapping[str, str]) -> RotoDocument:
    """The document with its shapes under their given names, for export.

    If a given name is also another shape's own name (another pack may bring one), all shapes keep their own names, so
    that no name occurs twice.
    """
    shown = {_fold_name(names.get(shape.name, shape.name)) for shape in document.shapes}
    if len(shown) < len(document.shapes) or not any(shape.name in names for shape in document.shapes):
        return document
    shapes = tuple(replace(shape, name=names.get(shape.name, shape.name)) for shape in document.shapes)
    return replace(document, shapes=shapes)
