"""RotoPaint AI: editable roto splines, seam mattes and clean plates for 3D-printed puppet faces.

Importing this package loads only the standard library; each subpackage is loaded when it is used. `run`, `mine`,
`train`, `evaluate` and `Shot` come from `rotopaint_ai.api` and are loaded on first use; `__init__.pyi` declares their
types.
"""

from importlib import import_module

__version__ = "0.1.0"
_OF_API = ("Shot", "evaluate", "mine", "run", "train")


def __getattr__(name: str) -> object:
    if name in _OF_API:
        return getattr(import_module("rotopaint_ai.api"), name)
    raise AttributeError(f"module 'rotopaint_ai' has no attribute '{name}'")
