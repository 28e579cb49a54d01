"""Figures of the code base by commit, for `docs/research/house.md`.

    python -m benchmarks.house [REV ...]

Counts are of Python files of the product (`rotopaint_ai`, `ui`, `plugin`) unless a row says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = ROOT / "tests" / "contracts"
PLACES = ("rotopaint_ai", "ui", "plugin", "docs", ":(glob)*.md")
OPTION = re.compile(r'add_argument\(\s*"--')
RESEARCH = Path("docs") / "research"
STEP = re.compile(r"\boptimi[sz]er\.step\(\)")
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
GRAPH = """
import json, sys
sys.path.insert(0, sys.argv[1])
import test_house
print(json.dumps([len(found) for found in test_house.circles(test_house.imports())]))
"""


def rows(root: Path) -> dict[str, str]:
    """The figures of a checkout by name."""
    parts = {"rotopaint_ai": root, "rotopaint_ui": root / "ui", "rotopaint_nuke": root / "plugin"}
    files = {path: (name, path.read_text("utf-8")) for name, at in parts.items() for path in (at / name).rglob("*.py")}
    texts = {".".join(path.relative_to(parts[name]).parts): text for path, (name, text) in files.items()}
    training = {name: text for name, text in texts.items() if name.startswith("rotopaint_ai.training.")}
    classes = Counter(name for text in texts.values() for name in CLASS.findall(text))
    names, shared = runpy.run_path(str(CONTRACTS / "test_names.py"))["shared_names"](texts)
    circles, research = _circles(root), _words(root / RESEARCH)
    flat = [name for name in training if name.count(".") == 3 and not name.endswith("__init__.py")]
    folders = {name.split(".")[2] for name in training if name.count(".") > 3}
    return {
        "product, files / lines": _size(texts.values()),
        "training, files / lines": _size(training.values()),
        "training, rooms / flat files": f"{len(folders)} / {len(flat)}",
        "files of training that step an optimiser": str(sum(bool(STEP.search(t)) for t in training.values())),
        "import circles, files in them": f"{len(circles)}, {sum(circles)}",
        "class names in two files": str(sum(n > 1 for n in classes.values())),
        "function names in two modules": f"{len(shared) / len(names):.1%}",
        "options of the command line": str(sum(len(OPTION.findall(t)) for t in texts.values())),
        "words of documents, for users / of research": f"{_words(root) - research:,} / {research:,}",
    }


def _size(texts: object) -> str:
    listed = list(texts)  # type: ignore[call-overload]
    return f"{len(listed)} / {sum(text.count(chr(10)) for text in listed):,}"


def _circles(root: Path) -> list[int]:
    path = ":".join(str(at) for at in (root, root / "ui", root / "plugin"))
    asked = [sys.executable, "-c", GRAPH, str(CONTRACTS)]
    found = subprocess.run(asked, env={**os.environ, "PYTHONPATH": path}, cwd=root, stdout=subprocess.PIPE, check=True)
    return list(json.loads(found.stdout))


def _words(folder: Path) -> int:
    return sum(
        len(page.read_text("utf-8").split()) for page in (*folder.glob("*.md"), *(folder / "docs").rglob("*.md"))
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", default=["HEAD"], metavar="REV", help="default: HEAD")
    revisions = parser.parse_args().revisions
    found = []
    for revision in revisions:
        with tempfile.TemporaryDirectory(prefix="house-") as folder:
            packed = subprocess.run(["git", "archive", revision, "--", *PLACES], cwd=ROOT, capture_output=True)
            if packed.returncode:
                why = packed.stderr.decode().strip()
                sys.exit(f"house: {revision} cannot be read ({why}); fetch its history (git fetch --unshallow)")
            with tarfile.open(fileobj=BytesIO(packed.stdout)) as tar:
                tar.extractall(folder, filter="data")
            found.append(rows(Path(folder)))
    print("| |" + "".join(f" {revision} |" for revision in revisions))
    print("|---|" + "---|" * len(revisions))
    for name in found[0]:
        print(f"| {name} |" + "".join(f" {each[name]} |" for each in found))


if __name__ == "__main__":
    main()
