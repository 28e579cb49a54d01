"""Run the notebook of the site in an empty folder, and save the outputs of its cells.

python scripts/notebook.py [FOLDER]

Writes the outputs into `docs/show_to_pack.ipynb`: printed text, the value of a cell's last line, and the picture. Takes
some minutes: it renders three shots and trains for five.
"""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import cv2

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "show_to_pack.ipynb"
PICTURE_PX = 1280

Json = dict[str, Any]


def renewed_notebook(notebook: Json, folder: Path) -> Json:
    """The notebook with new outputs; the cells are run one after another in a folder."""
    os.chdir(folder)
    state: dict[str, Any] = {}
    cells = []
    for count, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            outputs = [_without_folder(each, folder) for each in cell_outputs(cell, state, count)]
            cell = {**cell, "execution_count": None, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def cell_outputs(cell: Json, state: dict[str, Any], count: int) -> list[Json]:
    """The outputs of a cell: printed text, the value of its last line, and the picture that it names."""
    tree = ast.parse("".join(cell["source"]))
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    name, printed = f"cell {count}", io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, name, "exec"), state)
        value = eval(compile(last, name, "eval"), state) if last is not None else None
    found = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if "picture" in cell["metadata"].get("tags", ()):
        found.append(_data({"image/jpeg": _picture(Path("traced.png"))}))
    elif value is not None:
        found.append(_data({"text/plain": [repr(value)]}))
    return found


def _data(data: Json) -> Json:
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def _picture(path: Path) -> str:
    """A picture as text, small enough for a page."""
    pixels = cv2.imread(str(path))
    assert pixels is not None
    size = (PICTURE_PX, round(pixels.shape[0] * PICTURE_PX / pixels.shape[1]))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return base64.b64encode(cv2.imencode(".jpg", small)[1].tobytes()).decode()


def _without_folder(output: Json, folder: Path) -> Json:
    """The output without the name of the working folder."""
    found: Json = json.loads(json.dumps(output).replace(f"{folder}/", "").replace(str(folder), "."))
    return found


def main() -> None:
    """Renew the notebook's outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="working folder; shots that exist there are not rendered again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.folder or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        made = renewed_notebook(json.loads(NOTEBOOK.read_text(encoding="utf-8")), folder)
        NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
