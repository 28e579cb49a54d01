"""Real scripts beside the checkout: read whole, written, read again, equal."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document, nuke, nuke_curves, nuke_reader, nuke_script, nuke_text
from rotopaint_ai.exchange.nuke_tree import CurvesTree, NukeLayer, NukeShape
from rotopaint_ai.shapes import bezier

from .work import calls

pytestmark = pytest.mark.shared


Readings = Mapping[Path, nuke_reader.NukeReading]


@pytest.fixture(scope="module")
def readings(shared: Path) -> Readings:
    """Each script, read once for all tests."""
    real = [path for path in sorted((shared / "formats/nuke").iterdir()) if path.suffix in (".nk", ".gizmo")]
    ours = sorted((shared / "data/puppets").glob("*/t*1/roto.nk"))
    assert real
    assert ours
    return {path: nuke.read_report(path) for path in real + ours}


def elements(layer: NukeLayer) -> Counter[str]:
    """The number of shapes and strokes in a tree."""
    count: Counter[str] = Counter()
    for child in layer.children:
        count += elements(child) if isinstance(child, NukeLayer) else Counter({type(child).__name__: 1})
    return count


def test_every_tree_comes_back_equal(readings: Readings) -> None:
    assert len(readings) > 20
    for tree in (tree for reading in readings.values() for _, tree in reading.trees):
        assert nuke_curves.parse_curves(nuke_text.serialise(tree)) == tree


def test_shapes_and_strokes_are_as_many_as_the_list_says(shared: Path, readings: Readings) -> None:
    with (shared / "formats/nuke/SOURCES.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    checked = 0
    for row in rows:
        path = shared / "formats/nuke" / row["file"]
        if path not in readings:
            continue
        trees = readings[path].trees
        count = sum((elements(tree.root) for _, tree in trees), Counter[str]())
        assert (count["NukeShape"], count["NukeStroke"]) == (int(row["#shapes"]), int(row["#strokes"])), path.name
        checked += 1
    assert checked > 15


def test_the_puppets_scripts_change_in_nothing_when_written_and_read(readings: Readings, tmp_path: Path) -> None:
    """Other scripts are written back into their own nodes: see `test_kept_nodes`."""
    ours = {path: reading.document for path, reading in readings.items() if path.name == "roto.nk"}
    assert ours
    for path, first in ours.items():
        assert nuke.write_verified(tmp_path / "again.nk", first) == 0.0
        second = nuke.read(tmp_path / "again.nk")
        assert nuke.curve_difference(first, second) == 0.0
        for a, b in zip(first.shapes, second.shapes, strict=True):
            assert (a.name, a.closed, a.keys) == (b.name, b.closed, b.keys), path.name


def plain_shapes(tree: CurvesTree) -> list[NukeShape]:
    """Shapes of the root layer with a unique name and no transform."""
    names = Counter(child.name for child in tree.root.children)
    return [
        child
        for child in tree.root.children
        if isinstance(child, NukeShape)
        and child.kind == "bezier"
        and len(child.transform.values) <= 3
        and names[child.name] == 1
    ]


def test_linear_keys_follow_the_files_own_curves(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 0.1 px of the tree's cubics at frames on and between keys, for shapes without transform."""
    checked = 0
    for path, reading in readings.items():
        shapes = {shape.name: shape for shape in reading.document.shapes}
        text = nuke.nuke_text_of(path)
        once = list(nuke_script.nodes(text, where=path.name))  # one script has 122 nodes that are asked for by name
        monkeypatch.setattr(nuke_script, "nodes", lambda *_, found=once, **__: found)
        for node, tree in reading.trees:
            plain = plain_shapes(tree)
            height = reading.document.height
            if plain and len(reading.trees) > 1:
                height = nuke_reader.read_text(text, node=node).document.height
            for child in plain:
                shape = shapes[f"{node}/{child.name}" if len(reading.trees) > 1 else child.name]
                first, last = (shape.frames[0], shape.frames[-1]) if shape.keys else (1, 0)
                for frame in range(first, min(last, first + 60) + 1, 2):
                    for point, entry in zip(shape.at(frame), child.outline.points[1::3], strict=True):
                        x, y = (*(curve.at(frame) for curve in entry.values), 0.0, 0.0)[:2]
                        assert abs(point.x - x) <= 0.1
                        assert abs(height - point.y - y) <= 0.1
                        checked += 1
        monkeypatch.undo()
    assert checked > 8_000


def test_the_puppets_roto_lies_on_the_true_curves(shared: Path) -> None:
    """Checks y, frame numbers and tangents together: the artist's shapes lie within hand noise of the rendered
    truth."""
    folder = shared / "data/puppets/A_pip/test01"
    roto, truth = nuke.read(folder / "roto.nk"), document.read(folder / "truth.roto.json")
    assert (roto.width, roto.height) == (truth.width, truth.height)
    for name in ("eye_left", "mouth_outer", "brow_right"):
        for frame in (1001, 1012, 1023):
            a, b = roto.shape(name).at(frame), truth.shape(name).at(frame)
            mean, worst = bezier.curve_distance(bezier.as_array(a), bezier.as_array(b), True)
            assert mean < 0.5
            assert worst < 2.5


def test_a_megabyte_is_read_with_few_calls(shared: Path) -> None:
    """Counts calls per byte, which no machine changes; measured: 2.5."""
    path = shared / "formats/nuke/SGSMarkNA_Nuke_User_Tools_psd_maker.nk"
    assert calls(lambda: nuke.read(path)) < 3.0 * path.stat().st_size


def test_damage_is_refused_never_a_crash(shared: Path) -> None:
    text = (shared / "formats/nuke/SGSMarkNA_Nuke_User_Tools_Shadow_Blur_Processing.nk").read_text()
    start = text.index(" curves {")
    end = start + nuke_script.closing_brace(text[start:], text[start:].index("{"))
    chance = random.Random(5)
    reported = []
    for _ in range(120):
        at, length = chance.randrange(start, end), chance.choice([1, 1, 3, 40])
        damaged = text[:at] + chance.choice(["", "{", "}", "x", " 7 ", '"', "\\"]) + text[at + length :]
        try:
            nuke_reader.read_text(damaged)
        except DocumentError as error:
            reported.append(str(error))
    assert len(reported) > 60
    assert not any("\n" in line for line in reported)
