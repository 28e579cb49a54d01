"""The container recipe, read as text: what it copies, installs and starts exists. Nothing builds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_container_installs_and_starts_what_the_project_has() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert steps[0][0] == "FROM"
    assert {name for name, _ in steps} <= {"FROM", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT"}  # of the OCI's tools
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run = next(text for name, text in steps if name == "RUN")
    (extras,) = re.findall(r'"/src\[([a-z,]+)\]"', run)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (constraint,) = re.findall(r"--constraint /src/(\S+)", run)
    assert (ROOT / constraint).is_file()
    (program,) = re.findall(r'\["(\w+)"\]', next(text for name, text in steps if name == "ENTRYPOINT"))
    assert program in project["scripts"]
    python = next(text for name, text in steps if name == "FROM").split(":")[1].split("-")[0]
    assert f"Python {python}" in (ROOT / constraint).read_text(encoding="utf-8").splitlines()[0]
