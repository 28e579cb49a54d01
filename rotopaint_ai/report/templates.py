"""Pages from templates: jinja2 with everything escaped that is not marked as HTML."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill_template(package: str, template: str, **values: Any) -> str:
    """The text of a template that lies in a package's folder. Raises jinja2.UndefinedError for a value not given."""
    return _environment(package).get_template(template).render(**values)
