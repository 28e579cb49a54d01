"""The table of commands, presets, a person's own keys, and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QKeySequence
from pytestqt.qtbot import QtBot

from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.settings import preferences as kept
from rotopaint_ui.settings.commands import COMMANDS, GROUPS, Preset, command, conflicts, keys_of_preset
from rotopaint_ui.settings.preferences import SETTINGS, Preferences
from rotopaint_ui.standalone.preferences_window import PreferencesWindow


@pytest.mark.parametrize("preset", Preset)
def test_no_preset_gives_one_key_to_two_commands(preset: Preset) -> None:
    assert conflicts(keys_of_preset(preset)) == {}


def test_every_command_has_a_name_of_its_own_a_group_and_keys_that_exist() -> None:
    assert len({each.name for each in COMMANDS}) == len(COMMANDS)
    assert {each.group for each in COMMANDS} <= set(GROUPS)
    for each in COMMANDS:
        for preset in Preset:
            for key in each.keys_in(preset):
                assert not QKeySequence(key).isEmpty(), (each.name, key)


def test_presets_say_what_their_programs_say() -> None:
    """Silhouette's manual (Roto node, toolbar shortcuts): T transforms, R reshapes. Nuke: V selects."""
    assert "T" in command("tool.select").keys_in(Preset.SILHOUETTE)
    assert "R" in command("tool.reshape").keys_in(Preset.SILHOUETTE)
    assert "V" in command("tool.select").keys_in(Preset.NUKE)


def test_own_keys_win_and_clashes_are_named() -> None:
    keys = keys_of_preset(Preset.NUKE, {"accept": ("N",)})
    assert keys["accept"] == ("N",)
    assert conflicts(keys) == {"N": ("worst", "accept")}


def test_preferences_come_back_as_they_were(own_preferences: Path) -> None:
    meant = Preferences(cache_mb=2048, threads=3, device="cuda", autosave_s=5.0, preset=Preset.MOCHA)
    meant = (
        meant.with_shortcut("accept", ("Ctrl+Y", "J"))
        .with_recent("/a")
        .with_recent("/b")
        .with_recent("/a")
        .with_learnt("/p_pack")
    )
    kept.write_preferences(own_preferences, meant)
    assert kept.read_preferences(own_preferences) == (meant, None)
    assert meant.recent == ("/a", "/b")
    assert meant.with_shortcut("accept", None).shortcuts == {}


@pytest.mark.parametrize("text", ["{", '{"format": "x"}', '{"format": "rotopaint-preferences", "threads": -1}'])
def test_a_damaged_file_is_put_aside_and_never_lost(own_preferences: Path, text: str) -> None:
    own_preferences.write_text(text)
    found, trouble = kept.read_preferences(own_preferences)
    assert found == Preferences()
    assert trouble is not None
    assert "defaults are used" in trouble
    assert own_preferences.with_suffix(".damaged.json").read_text() == text


def test_a_newer_file_keeps_what_is_understood(own_preferences: Path) -> None:
    value = {"format": "rotopaint-preferences", "version": 9, "threads": 2, "telepathy": True}
    own_preferences.write_text(json.dumps({**value, "shortcuts": {"no.such": ["A"]}}))
    assert kept.read_preferences(own_preferences) == (Preferences(threads=2), None)


def test_the_window_shows_every_setting_and_changes_are_in_force_at_once(
    qtbot: QtBot, panel: Panel, own_preferences: Path
) -> None:
    window = PreferencesWindow(panel.preferences, ["Raw"], panel.set_preferences, panel)
    qtbot.addWidget(window)
    assert set(window.fields) == {setting.name for setting in SETTINGS}
    window.fields["cache_mb"].setValue(128)  # type: ignore[union-attr]
    assert panel.preferences.cache_mb == 128
    editor = window.shortcuts
    editor.choose("accept")
    editor.box.setKeySequence(QKeySequence("Ctrl+J"))
    editor.set_keys()
    assert [key.toString() for key in panel.commands["accept"].shortcuts()] == ["Ctrl+J"]
    assert kept.read_preferences(own_preferences)[0].shortcuts == {"accept": ("Ctrl+J",)}
    editor.box.setKeySequence(QKeySequence("N"))
    editor.add_keys()
    assert "neither works" in editor.clashes.text()
    editor.reset_keys()
    assert panel.preferences.shortcuts == {}
    assert editor.clashes.text() == "No keys clash"
    panel.set_preferences(replace(panel.preferences, preset=Preset.SILHOUETTE))
    assert [key.toString() for key in panel.commands["next"].shortcuts()] == ["X", "Right"]
