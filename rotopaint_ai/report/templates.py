"""Pages from templates, by jinja2; everything that is not marked as HTML is escaped."""

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
    """Fill a template of a package's folder; returns its text. Raises jinja2.UndefinedError for a missing value."""
    return _environment(package).get_template(template).render(**values)
