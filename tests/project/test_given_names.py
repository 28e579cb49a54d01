"""Names that an artist gives."""

from __future__ import annotations

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.project.names import checked_name


def test_a_name_has_one_to_a_hundred_letters() -> None:
    assert checked_name("seam", f"  {'n' * 100} ") == "n" * 100
    with pytest.raises(UsageError, match="seam: the name is 101 long"):
        checked_name("seam", "n" * 101)
    with pytest.raises(UsageError, match="seam: the name is 0 long"):
        checked_name("seam", "  ")


@pytest.mark.parametrize(
    ("given", "why"), [("a/b", "holds '/'"), ("a\tb", r"holds '\\t'"), (".a", "begins with a dot")]
)
def test_a_name_that_files_cannot_hold_is_refused_and_the_reason_given(given: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        checked_name("seam", given)
