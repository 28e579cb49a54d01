"""Reading the text of a jobs file, YAML or JSON.

As in YAML 1.2, only plain decimals are integers: a shot called 010 keeps its name, and `1:30` is not a number of base
60. A repeated name in one mapping is refused, because its first value would be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.yaml_text import DoubledNameError, refuse_doubled, yaml_errors, yaml_loader

_PLAIN = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp")  # resolved in another way, or left as text


class _Loader(yaml_loader(aliases=True)):  # type: ignore[misc]  # PyYAML has no types
    """A loader with YAML 1.2's integers."""

    yaml_implicit_resolvers: ClassVar[Any] = {
        sign: [(tag, pattern) for tag, pattern in rows if tag not in _PLAIN]
        for sign, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(_PLAIN[0], re.compile(r"^(?:0|-?[1-9][0-9]*)$"), list("-0123456789"))


def read_jobs_text(path: Path) -> Any:
    """The content of a jobs file. Raises UsageError where it is missing, neither YAML nor JSON, or ambiguous."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise UsageError(f"{path}: no such jobs file; check the path (docs/batch.md describes its content)") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name}: is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    try:
        return _parse_yaml(text)
    except DoubledNameError as error:
        raise UsageError(f"{path.name}: {error}; keep one of them") from error
    except yaml_errors() as error:
        raise UsageError(f"{path.name}: is not YAML ({' '.join(str(error).split())[:160]}); correct it") from error


def _parse_yaml(text: str) -> Any:
    if text.lstrip().startswith("{"):  # JSON may be indented with tabs, which YAML forbids
        try:
            return json.loads(text, object_pairs_hook=_without_doubled)
        except json.JSONDecodeError:  # YAML's own braces
            pass
    return yaml.load(text, _Loader)


def _without_doubled(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    refuse_doubled(name for name, _ in pairs)
    return dict(pairs)
