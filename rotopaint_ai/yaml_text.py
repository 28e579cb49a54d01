"""Loading of YAML text that refuses duplicate names in a mapping.

PyYAML is imported when the first file is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any


class DoubledNameError(ValueError):
    """A name occurs twice in one mapping, so the first value would be lost."""


def refuse_doubled(names: Iterable[object]) -> None:
    """Raise DoubledNameError for a name that occurs more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            raise DoubledNameError(f"'{name}' occurs {count} times in one place")


def yaml_errors() -> tuple[type[Exception], ...]:
    """The errors that reading a text which is not YAML raises; those of Python come from wrong tags, as `!!int x`."""
    import yaml

    return yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError


@cache
def yaml_loader(*, aliases: bool) -> Any:
    """PyYAML's safe loader that refuses duplicate names and, without `aliases`, YAML aliases.

    With aliases a file of a few bytes can expand to any number of values."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        def compose_node(self, parent: Any, index: Any) -> Any:
            if not aliases and self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"*{self.peek_event().anchor} is an alias of another part; write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            scalars = (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            refuse_doubled(name for name in scalars if name != "<<")
            return super().construct_mapping(node, deep)

    return Loader
