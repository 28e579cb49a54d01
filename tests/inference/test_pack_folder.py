"""A new pack replaces an old one completely, and keeps files that are not part of a pack."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rotopaint_ai.inference.pack_folder import copy_pack, is_replaceable, replacing_folder


def _fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_others_keep_beside_an_old_pack_stays(tmp_path: Path) -> None:
    old = ("card.json", "landmarks.onnx", "seam.onnx", "head.json", "weights.npz")
    _fill(tmp_path / "pack", {**dict.fromkeys(old, "old"), "notes.txt": "mine", "tests/frames": "mine"})
    with replacing_folder(tmp_path / "pack") as made:
        _fill(made, {"card.json": "new", "landmarks.onnx": "new"})
    kept = {"card.json": "new", "landmarks.onnx": "new", "notes.txt": "mine", "tests/frames": "mine"}
    assert _files(tmp_path) == {f"pack/{name}": text for name, text in kept.items()}


def test_the_old_pack_comes_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path / "pack", {"card.json": "old"})
    rename = Path.rename

    def refuse_new(path: Path, target: Path) -> Path:
        if path.name == "pack" and path.parent != tmp_path:
            raise OSError(5, "Input/output error", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse_new)
    with pytest.raises(OSError, match="Input/output error"), replacing_folder(tmp_path / "pack") as made:
        _fill(made, {"card.json": "new"})
    assert _files(tmp_path) == {"pack/card.json": "old"}


def test_files_of_an_interrupted_exchange_enter_the_new_folder(tmp_path: Path) -> None:
    _fill(tmp_path / ".pack.old", {"card.json": "old", "notes.txt": "mine"})
    with replacing_folder(tmp_path / "pack") as made:
        _fill(made, {"card.json": "new"})
    assert _files(tmp_path) == {"pack/card.json": "new", "pack/notes.txt": "mine"}


def test_a_full_disk_is_that_of_the_copy(tmp_path: Path, puppet_pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source))

    monkeypatch.setattr("shutil.copyfile", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        copy_pack(puppet_pack, tmp_path)
    assert Path(caught.value.filename).parent == tmp_path


def test_only_packs_and_empty_places_are_taken(tmp_path: Path, puppet_pack: Path) -> None:
    assert is_replaceable(puppet_pack)
    assert is_replaceable(tmp_path / "new")
    assert is_replaceable(tmp_path)
    _fill(tmp_path, {"a": "mine"})
    assert not is_replaceable(tmp_path)
    assert not is_replaceable(tmp_path / "a")
