"""The project file: what goes in comes back, undo goes on after closing, two people, newer and damaged files."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rotopaint_ai.cli import main
from rotopaint_ai.errors import DamagedProjectError, LockedError, ProjectError, UsageError
from rotopaint_ai.exchange.limits import MOST_WIDTH_PX
from rotopaint_ai.project import CropBox, Project, SeamSettings, Spread, State, codecs, corrections, owner, schema
from rotopaint_ai.project.restore import restore
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape

FRAMES = (1001, 1002, 1003)


def document(shift: float = 0.0, *, human: tuple[int, ...] = ()) -> RotoDocument:
    """A seam and an eye over three frames, and two landmarks, of which one is hidden at first."""

    def key(frame: int, x: float) -> Key:
        points = (ControlPoint(x + shift, frame / 7, 0, 0, 1.25, 0), ControlPoint(x + 0.1, 3.0, -1, 0, 0, 1e-9))
        return Key(points, "human" if frame in human else "model", "hold" if frame == 1002 else "linear")

    return RotoDocument(
        width=64,
        height=48,
        first_frame=1001,
        last_frame=1003,
        pixel_aspect=2.0,
        fps=23.976,
        landmarks=LandmarkKeys(
            ("nose", "chin"),
            {1001: (Landmark(3.3, 4.4, 0.5), None), 1002: (Landmark(3.4, 4.5, 0.5), Landmark(1, 2))},
            {1002: frozenset({"chin"})},
        ),
        shapes=(
            RotoShape("seam", False, "seam", {f: key(f, 5.0) for f in FRAMES}, width_px=4.0, taper=(0.1, 0.2)),
            RotoShape("eye", True, "matte", {f: key(f, 9.0) for f in FRAMES}, feather_px=1.0, visible={1003: False}),
        ),
    )


def whole() -> State:
    """A state that uses every feature."""
    return State(
        document=document(2.0, human=(1002,)),
        crops={1001: CropBox(1, 2, 30, 40.5)},
        predicted=document(),
        marks={1001: "accepted", 1003: "needs work"},
        seams={"seam": SeamSettings(width_px=5.5, taper=(0.0, 0.3), grain=0.5, profile=((1.0, 0.5), (0.5, 1.0)))},
        spreads=(Spread(1002, 1001, 1003, frozenset({"seam"})),),
        names={"eye": "Left Eye"},
    )


def loaded(path: Path) -> State:
    project = Project.open(path, write=False)
    try:
        return project.load().state
    finally:
        project.close()


def look_over(path: Path) -> None:
    project = Project.open(path)
    try:
        project.check()
        project.load()
    finally:
        project.close()


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    Project.create(tmp_path / "shot.rotopaint", whole()).close()
    assert loaded(tmp_path / "shot.rotopaint") == whole()


def test_the_usual_hold_out_is_left_out_so_that_programs_before_it_read_the_rest() -> None:
    assert b"hold_out" not in codecs.pack("seam", SeamSettings(grain=0.5))
    off = SeamSettings(grain=0.5, hold_out=False)
    assert codecs.unpack("seam", codecs.pack("seam", off)) == off
    assert codecs.unpack("seam", codecs.pack("seam", SeamSettings(grain=0.5))).hold_out
    with pytest.raises(ValueError, match="wanted true or false"):
        codecs.unpack("seam", codecs.pack("seam", off).replace(b"false", b"0.0"))


def test_what_other_programs_keep_in_a_document_comes_back(tmp_path: Path) -> None:
    before = whole()
    assert before.document is not None
    first, *others = before.document.shapes
    kept = {"nuke": {"at": [0, 1], "text": "{a}\n"}}
    shapes = (replace(first, metadata=kept), *others)
    project = Project.create(tmp_path / "shot.rotopaint", before)
    after = replace(before, document=replace(before.document, shapes=shapes, metadata=kept))
    project.append("read", before, after)
    project.close()
    found = loaded(tmp_path / "shot.rotopaint").document
    assert found is not None
    assert (found.metadata, found.shapes[0].metadata, found.shapes[1].metadata) == (kept, kept, {})


def test_an_empty_project_is_an_empty_state(tmp_path: Path) -> None:
    Project.create(tmp_path / "shot.rotopaint").close()
    assert loaded(tmp_path / "shot.rotopaint") == State()


def test_a_gesture_writes_only_what_it_changed(tmp_path: Path) -> None:
    before = whole()
    assert before.document is not None
    seam = before.document.shape("seam")
    moved = Key((ControlPoint(1, 2), ControlPoint(3, 4)), "human")
    shapes = (seam.with_keys({**seam.keys, 1003: moved}), *before.document.shapes[1:])
    after = replace(before, document=replace(before.document, shapes=shapes))
    assert list(codecs.changes(before, after)) == [(codecs.TrackPlace(codecs.Track("key", "seam"), 1003), moved)]


@st.composite
def states(draw: st.DrawFn) -> State:
    number = st.floats(-1e6, 1e6)
    shapes = []
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True)):
        points = st.tuples(*[st.builds(ControlPoint, number, number, number, number, number, number)] * 2)
        sources, kinds = st.sampled_from(["model", "human", "propagated"]), st.sampled_from(["linear", "hold"])
        keys = st.dictionaries(st.integers(-5, 5), st.builds(Key, points, sources, kinds), max_size=4)
        visible = st.dictionaries(st.integers(-5, 5), st.booleans(), max_size=2)
        width = draw(st.floats(0, MOST_WIDTH_PX))
        shapes.append(RotoShape(name, draw(st.booleans()), "seam", draw(keys), width, visible=draw(visible)))
    marks = st.dictionaries(st.integers(-5, 5), st.sampled_from(["accepted", "needs work"]), max_size=3)
    boxes = st.dictionaries(st.integers(-5, 5), st.builds(CropBox, number, number, number, number), max_size=3)
    made = RotoDocument(8, 8, -5, 5, shapes=tuple(shapes))
    return State(draw(st.sampled_from([None, made])), draw(boxes), draw(st.sampled_from([None, made])), draw(marks))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(states(), min_size=2, max_size=5))
def test_any_walk_of_steps_undone_and_redone_gives_the_states_it_came_by(
    tmp_path_factory: pytest.TempPathFactory, walk: list[State]
) -> None:
    path = tmp_path_factory.mktemp("walk") / "shot.rotopaint"
    project = Project.create(path, walk[0])
    numbers = [project.append("step", a, b) for a, b in pairwise(walk)]
    project.close()
    project = Project.open(path)
    state = project.load().state
    for number, wanted in zip(reversed(numbers), reversed(walk[:-1])):
        state = project.before(number, state)
        project.take_back(number)
        assert state == wanted == project.load().state
    for number, wanted in zip(numbers, walk[1:]):
        state = project.after(number, state)
        project.do_again(number)
        assert state == wanted == project.load().state
    project.close()


def test_history_stands_after_closing_and_a_new_step_forgets_the_undone_ones(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    first, second = replace(whole(), marks={}), whole()
    project = Project.create(path, first)
    number = project.append("accept", first, second)
    project.take_back(project.append("crop box", second, replace(second, crops={})))
    project.close()
    project = Project.open(path)
    found = project.load()
    assert ([s.label for s in found.behind], [s.label for s in found.ahead]) == (["accept"], ["crop box"])
    project.take_back(number)
    project.append("run", first, replace(first, predicted=None))
    assert [step.label for step in project.load().behind] == ["run"]
    assert project.load().ahead == ()
    project.close()


def test_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotopaint_ai.project.database.MOST_STEPS", 3)
    project = Project.create(tmp_path / "shot.rotopaint")
    walk = [State(crops={1: CropBox(k, 0, 9, 9)}) for k in range(8)]
    for a, b in pairwise(walk):
        project.append("crop box", a, b)
    assert len(project.load().behind) == 3
    project.close()
    with sqlite3.connect(tmp_path / "shot.rotopaint") as raw:
        assert raw.execute("SELECT count(*) FROM value").fetchone()[0] == 4  # the one shown and three behind it
    raw.close()


def test_the_second_person_reads_and_is_reported_who_works_on_it(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    first = Project.create(path, whole())
    second = Project.open(path)
    assert second.is_read_only
    assert str(second.other_owner) == str(owner.identify_process(0.0))
    assert second.load().state == whole()
    with pytest.raises(LockedError, match="works on it; save a copy"):
        second.append("move points", whole(), State())
    second.copy_to(tmp_path / "mine.rotopaint")
    second.close()
    copy = Project.open(tmp_path / "mine.rotopaint")
    assert not copy.is_read_only
    copy.close()
    first.append("move points", whole(), State())
    first.close()


def test_a_lock_whose_process_is_gone_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    code = f"from pathlib import Path; from rotopaint_ai.project import Project; Project.create(Path({str(path)!r}))"
    subprocess.run([sys.executable, "-c", code + "; import os; os._exit(9)"], check=False)
    project = Project.open(path)
    assert not project.is_read_only
    assert project.left_behind is not None
    project.close()


@pytest.mark.parametrize("seen_s", [-7200.0, 0.0, 7200.0])
@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_locks_depend_on_neither_the_clock_nor_the_hostname(tmp_path: Path, seen_s: float, host: str) -> None:
    """Another machine's clock may be hours off, and two containers may share a hostname and process numbers."""
    path = tmp_path / "shot.rotopaint"
    living = Project.create(path)
    name = owner.identify_process(0.0).host if host == "here" else "ws12"
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE owner SET seen = seen + ?, host = ?, pid = 4194303", (seen_s, name))
    raw.close()
    second = Project.open(path)
    assert second.is_read_only
    second.close()
    living.append("move points", State(), whole())
    living._lock.release()  # type: ignore[union-attr]  # its process has ended
    third = Project.open(path)
    assert not third.is_read_only
    third.close()
    living.close()


def test_closing_on_a_full_disk_gives_the_lock_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shot.rotopaint"
    project = Project.create(path)
    project.append("move points", State(), whole())

    def full(_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Project, "_tidy", full)
    project.close()
    monkeypatch.undo()
    again = Project.open(path)
    assert not again.is_read_only
    assert again.left_behind is None
    again.close()


def test_an_owner_who_slept_is_reported_when_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    sleeper = Project.create(path)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE owner SET token = 'other', user = 'anna', host = 'ws12'")
    raw.close()
    with pytest.raises(LockedError, match="anna on ws12 took the project over"):
        sleeper.append("move points", State(), whole())
    with pytest.raises(LockedError):
        sleeper.heartbeat()
    sleeper.close()
    assert loaded(path) == State()


def test_newer_foreign_and_missing_files_are_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 9")
    raw.close()
    with pytest.raises(ProjectError, match=r"newer version .* update"):
        Project.open(path)
    (tmp_path / "plate.exr").write_bytes(b"v/1\x01" * 9)
    with pytest.raises(ProjectError, match="not a RotoPaint project"):
        Project.open(tmp_path / "plate.exr")
    with pytest.raises(ProjectError, match="does not exist"):
        Project.open(tmp_path / "gone.rotopaint")
    with sqlite3.connect(tmp_path / "other.db") as raw:
        raw.execute("CREATE TABLE t (a)")
    raw.close()
    with pytest.raises(ProjectError, match="another program"):
        Project.open(tmp_path / "other.db")
    with pytest.raises(ProjectError, match="exists already"):
        Project.create(path)


def test_every_kind_of_damage_is_refused_in_one_line_that_names_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    project = Project.create(path, whole())
    project.append("clear", whole(), replace(whole(), crops={}))
    project.close()
    good = path.read_bytes()
    torn = {
        "empty": b"",
        "half": good[: len(good) // 2],
        "zeros": b"\0" * len(good),
        "head only": good[:4096],
        "holes": b"".join(good[i : i + 4096] if i % 8192 else b"\xff" * 4096 for i in range(4096, len(good), 4096)),
    }
    for name, content in torn.items():
        path.write_bytes(good[:4096] + content if name == "holes" else content)
        with pytest.raises(DamagedProjectError) as caught:
            look_over(path)
        assert "\n" not in str(caught.value)
        assert ".shot.backup.rotopaint" in str(caught.value), name
    assert loaded(tmp_path / ".shot.backup.rotopaint") == replace(whole(), crops={})


@pytest.mark.parametrize("fill", [b"\0", b"\xff", None], ids=["zeros", "ones", "one bit"])
def test_damage_to_any_page_changes_nothing_or_is_seen_and_put_back(tmp_path: Path, fill: bytes | None) -> None:
    path = tmp_path / "shot.rotopaint"
    with closing(Project.create(path, whole())) as project:
        project.append("move", whole(), replace(whole(), document=document(0.5, human=(1001, 1002))))
    good, meant, draw = path.read_bytes(), loaded(path), random.Random(5)
    refused = []
    for at in range(0, len(good), 4096):
        page = bytearray(good[at : at + 4096])
        if fill is None:
            page[-1 - draw.randrange(200)] ^= 1 << draw.randrange(8)  # cells are filled from their page's end
        else:
            page[:] = fill * len(page)
        path.write_bytes(good[:at] + bytes(page) + good[at + 4096 :])
        try:
            assert loaded(path) == meant
        except ProjectError:
            refused.append(at)
            restore(path)
            assert loaded(path) == meant
    assert len(refused) > (2 if fill is None else len(good) // 4096 // 2)


def test_a_damaged_project_is_put_back_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shot.rotopaint"
    with closing(Project.create(path, whole())) as project:
        project.append("clear", whole(), replace(whole(), crops={}))
    torn = path.read_bytes()[:5000]
    path.write_bytes(torn)
    with pytest.raises(DamagedProjectError, match=r"`rotopaint restore shot\.rotopaint`"):
        look_over(path)
    assert main(["restore", str(path)]) == 0
    said = capsys.readouterr().out
    assert "1 steps can be undone; the damaged file is kept as shot.damaged-1.rotopaint" in said
    assert loaded(path) == replace(whole(), crops={})
    assert (tmp_path / "shot.damaged-1.rotopaint").read_bytes() == torn


def test_three_copies_go_round_and_a_whole_project_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State(names={"a": "0"})).close()
    for n in range(1, 5):
        with closing(Project.open(path)) as project:
            project.append("name", State(names={"a": str(n - 1)}), State(names={"a": str(n)}))
    names = [loaded(schema.backup_path(path, number)).names["a"] for number in (1, 2, 3)]
    assert names == ["4", "3", "2"]
    with pytest.raises(UsageError, match="is not damaged; nothing was restored"):
        restore(path)
    schema.backup_path(path).write_bytes(b"torn")
    path.unlink()
    assert restore(path).kept is None
    assert loaded(path).names["a"] == "3"
    for number in (1, 2, 3):
        schema.backup_path(path, number).unlink()
    path.write_bytes(b"")
    with pytest.raises(ProjectError, match="no whole copy"):
        restore(path)


def test_a_copy_of_the_file_has_all_edits_up_to_the_last_heartbeat(tmp_path: Path) -> None:
    path, copy = tmp_path / "shot.rotopaint", tmp_path / "copy.rotopaint"
    with closing(Project.create(path, whole())) as project:
        before = whole()
        for n in range(60):
            after = replace(before, crops={1001: CropBox(n, 2, 30, 40)})
            project.append("crop", before, after)
            before = after
        project.heartbeat()
        shutil.copyfile(path, copy)
    with closing(Project.open(copy)) as opened:
        assert opened.load().state == before
        assert len(opened.load().behind) == 60


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW shape_key; CREATE VIEW shape_key AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
        "FROM n) SELECT i FROM n",
        "CREATE TRIGGER t AFTER UPDATE ON owner BEGIN INSERT INTO note SELECT hex(randomblob(9)), 1 FROM item, item b;"
        " END",
        "DROP TABLE note; CREATE VIEW note AS SELECT 'position' AS name, hex(zeroblob(900000000)) AS value",
        "CREATE TABLE more (a)",
    ],
    ids=["endless view", "trigger", "zeroblob", "another table"],
)
def test_a_project_with_other_tables_is_refused_at_once(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, whole()).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(sql)
    for write in (True, False):
        with pytest.raises(DamagedProjectError, match="its tables are not those of a project"):
            Project.open(path, write=write)


def test_values_of_another_type_or_length_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MOST_BYTES", 10_000)
    path = tmp_path / "shot.rotopaint"
    for sql in (
        "UPDATE value SET data = 'text'",
        "UPDATE value SET data = zeroblob(20000)",
        "UPDATE item SET frame = 'one' WHERE frame = 1002",
        "UPDATE note SET value = '[[[' WHERE name = 'position'",
        "UPDATE track SET kind = 'nothing' WHERE id = 2",
    ):
        path.unlink(missing_ok=True)
        Project.create(path, whole()).close()
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("DELETE FROM note WHERE name = 'sum'")
            raw.execute(sql)
        with pytest.raises(ProjectError), closing(Project.open(path)) as project:
            project.load()


def test_a_file_of_the_first_version_is_read_and_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, whole()).close()
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE value SET data = substr(data, 1, length(data) - 4)")
        raw.execute("DELETE FROM note WHERE name = 'sum'")
        raw.execute("PRAGMA user_version = 1")
    assert loaded(path) == whole()
    Project.open(path).close()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone()[0] == 2
    assert loaded(path) == whole()


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run as the user nobody inside the block, because root may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="who may write a file is a POSIX mode")
def test_a_file_that_may_not_be_written_opens_to_read() -> None:
    with TemporaryDirectory() as folder:  # not below pytest's, which its owner alone may enter
        os.chmod(folder, 0o755)
        path = Path(folder) / "shot.rotopaint"
        Project.create(path, whole()).close()
        path.chmod(0o444)
        with as_nobody():
            project = Project.open(path)
            assert project.is_read_only
            assert project.load().state == whole()
            project.close()


def test_corrections_tell_what_was_moved_from_what(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    project = Project.create(path, whole())
    project.set_note("plate", {"source": "/plates/a.####.exr", "colourspace": "ACEScg"})
    found = corrections(path)  # while somebody works on it
    project.close()
    assert (found.plate, found.colourspace) == ("/plates/a.####.exr", "ACEScg")
    assert [each.frame for each in found.frames] == [1001, 1002]
    accepted, moved = found.frames
    assert (accepted.mark, accepted.human_shapes) == ("accepted", frozenset())
    assert moved.human_shapes == {"seam", "eye"}
    assert moved.hand_landmarks == {"chin"}
    assert moved.shapes["seam"][0].x - moved.model_shapes["seam"][0].x == 2.0
    assert moved.landmarks[1] == Landmark(1, 2)


def test_shapes_that_people_drew_beside_the_models_are_no_corrections(tmp_path: Path) -> None:
    """A frame where only a badge is keyed is not a correction, and no pack is trained on the badge."""
    path, state = tmp_path / "shot.rotopaint", whole()
    assert state.document is not None
    badge = RotoShape("badge", True, "matte", {1006: Key((ControlPoint(1, 1), ControlPoint(9, 1)), "human")})
    drawn = replace(state, document=replace(state.document, shapes=(*state.document.shapes, badge)))
    Project.create(path, drawn).close()
    found = corrections(path)
    assert [each.frame for each in found.frames] == [1001, 1002]
    assert "badge" not in [shape.name for shape in found.document.shapes]


def test_a_project_on_a_disk_that_takes_nothing_is_read_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State()).close()
    before = {each.name for each in tmp_path.iterdir()}
    monkeypatch.setattr("os.access", lambda *_: False)
    project = Project.open(path)
    assert project.is_read_only
    assert project.load().state == State()
    assert {each.name for each in tmp_path.iterdir()} == before  # no log, no shared memory beside it
    project.close()


@pytest.mark.parametrize("error", [AttributeError("x"), OverflowError("x"), RecursionError("x")])
def test_content_that_does_not_belong_together_is_a_damaged_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State()).close()

    def torn(_: object) -> State:
        raise error

    monkeypatch.setattr("rotopaint_ai.project.database.state_of", torn)
    with closing(Project.open(path)) as project, pytest.raises(DamagedProjectError, match="its content is torn"):
        project.load()


@pytest.mark.parametrize("write", [True, False])
def test_a_definition_that_is_no_text_is_a_damaged_project(tmp_path: Path, write: bool) -> None:
    """Found by coverage: Python decodes SQLite's message as UTF-8, and the message repeats the damaged bytes."""
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State()).close()
    whole, wanted = path.read_bytes(), b"CREATE TABLE note"
    assert whole.count(wanted) == 1
    path.write_bytes(whole.replace(wanted, b"CREAT\xff TABLE note"))
    with pytest.raises(DamagedProjectError, match=r"shot\.rotopaint: is damaged"):
        Project.open(path, write=write)


@pytest.mark.skipif(sys.platform == "win32", reason="who may read a file is a POSIX mode")
def test_copies_of_a_project_are_read_by_nobody_who_may_not_read_it(tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State()).close()
    path.chmod(0o600)
    with closing(Project.open(path)) as project:
        project.append("name", State(), State(names={"a": "b"}))
    assert schema.backup_path(path).stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"")
    restore(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("refused", ["shot.rotopaint", "folder"])
def test_a_project_is_read_alone_where_its_file_or_its_folder_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """SQLite would have to write its log into the same folder."""
    path = tmp_path / "folder" / "shot.rotopaint"
    path.parent.mkdir()
    Project.create(path, State()).close()
    monkeypatch.setattr("os.access", lambda asked, _: Path(asked).name != refused)
    with closing(Project.open(path)) as project:
        assert project.is_read_only


@pytest.mark.parametrize("content", [b"", bytes(64), b"SQLite torn"])
def test_an_empty_or_torn_file_is_a_damaged_project_by_its_ending_alone(tmp_path: Path, content: bytes) -> None:
    for name, kind, words in (
        ("shot.rotopaint", DamagedProjectError, "rename it"),
        ("shot.txt", ProjectError, "choose a file that ends in"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(kind, match=words):
            Project.open(tmp_path / name)
    (tmp_path / "shot.rotopaint").write_bytes(b"a poem")
    with pytest.raises(ProjectError, match=r"is damaged, or no RotoPaint project; choose another file$"):
        Project.open(tmp_path / "shot.rotopaint")
    schema.backup_path(tmp_path / "shot.rotopaint").write_bytes(content)
    with pytest.raises(ProjectError, match=r"choose another file, or `rotopaint restore shot\.rotopaint`"):
        Project.open(tmp_path / "shot.rotopaint")
    with closing(sqlite3.connect(tmp_path / "other.rotopaint")) as other:
        other.execute("CREATE TABLE poem (line TEXT)")
    with pytest.raises(ProjectError, match="belongs to another program; choose another file"):
        Project.open(tmp_path / "other.rotopaint")


@pytest.mark.parametrize(("is_local", "journal", "synchronous"), [(True, "wal", 1), (False, "truncate", 2)])
def test_a_local_disk_uses_a_log_and_others_sync_each_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool, journal: str, synchronous: int
) -> None:
    """SQLite's numbers: 1 is NORMAL, 2 is FULL."""
    monkeypatch.setattr(schema, "is_local", lambda path: is_local)
    with closing(Project.create(tmp_path / "shot.rotopaint", State())) as project:
        assert project._db.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert project._db.execute("PRAGMA synchronous").fetchone() == (synchronous,)
