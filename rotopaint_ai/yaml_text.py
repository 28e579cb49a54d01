"""The text of YAML files, read without surprises: a name that stands twice in one place is refused.

Light: PyYAML is imported when the first file is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any


class DoubledNameError(ValueError):
    """A name stands twice in one place: the first of them would be lost."""


def refuse_doubled(names: Iterable[object]) -> None:
    """Raises DoubledNameError, in one line, for a name that is there more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            raise DoubledNameError(f"'{name}' stands {count} times in one place")


@cache
def yaml_loader(*, aliases: bool) -> Any:
    """PyYAML's safe loader that refuses doubled names and, without `aliases`, a part that stands for another one, with
    which a few bytes tell of any number of values."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        def compose_node(self, parent: Any, index: Any) -> Any:
            if not aliases and self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"*{self.peek_event().anchor} stands for another part; write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            scalars = (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            refuse_doubled(name for name in scalars if name != "<<")
            return super().construct_mapping(node, deep)

    return Loader
