"""The table of commands: label, place in the menus, and keys in every preset. No Qt.

A command's `name` never changes: preferences keep a person's own keys by it. What a command does is found by the panel:
`tool.X` takes the viewer's tool X in hand, `overlay.X` switches the field X of the viewer's overlay, `canvas.X` calls
the viewer's method X, `edit.X` the edit X of `tools/edit_actions.py`, `channel.X` shows the channel X alone, `pane.X`
shows or hides the pane X; the others are named in the panel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rotopaint_ai.spreads import SPREADS


class Preset(StrEnum):
    """The program whose shortcuts are used."""

    NUKE = "Nuke"
    SILHOUETTE = "Silhouette"
    MOCHA = "Mocha"


KeySequences = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `keys` are Nuke's; the other presets list only differences."""

    name: str
    label: str
    group: str
    keys: KeySequences = ()
    picture: str = ""
    checkable: bool = False
    silhouette: KeySequences | None = None
    mocha: KeySequences | None = None

    def keys_in(self, preset: Preset) -> KeySequences:
        """The keys of a preset."""
        others = {Preset.SILHOUETTE: self.silhouette, Preset.MOCHA: self.mocha}
        own = others.get(preset)
        return self.keys if own is None else own


_SPREAD_KEYS: Mapping[str, tuple[KeySequences, str]] = {  # and pictures; a way without a row has neither
    "spread": (("Return", "Enter"), "spread"),
    "refit": (("Ctrl+R",), "refit"),
}
_CHANNEL_KEYS: tuple[
    tuple[str, str, KeySequences], ...
] = (  # Nuke's letters; without a modifier they are tools and marks here
    ("R", "Red alone", ("Ctrl+Alt+R",)),
    ("G", "Green alone", ("Ctrl+Alt+G",)),
    ("B", "Blue alone", ("Ctrl+Alt+B",)),
    ("A", "Alpha alone", ("Ctrl+Alt+A",)),
    ("luma", "Luma", ("Ctrl+Alt+Y",)),
)
GROUPS = ("File", "Edit", "Tools", "Points", "Keys", "View", "Playback", "Review", "Shot")

COMMANDS = (
    Command("open", "Open plate", "File", ("Ctrl+O",)),
    Command("open_project", "Open project", "File", ("Ctrl+Shift+O",)),
    Command("relink", "Relink the plate", "File"),
    Command("colourspace", "Colour space of the plate", "File", ("Ctrl+Shift+I",)),
    Command("save", "Save shapes", "File", ("Ctrl+S",)),
    Command("export", "Export", "File", ("Ctrl+E",)),
    Command("copy_shapes", "Copy shapes for Nuke: paste them into its node graph", "File", ("Ctrl+Alt+C",)),
    Command("diagnostics", "Copy diagnostics", "File"),
    Command("undo", "Undo", "Edit", ("Ctrl+Z",), "undo"),
    Command("redo", "Redo", "Edit", ("Ctrl+Shift+Z", "Ctrl+Y"), "redo"),
    Command("leave", "Leave the drag, or stop the run", "Edit", ("Esc",)),
    Command("tool.select", "Select and move", "Tools", ("V",), "select", True, ("T",), ("Ctrl+1",)),
    Command("tool.lasso", "Select with a lasso, and move", "Tools", ("Shift+V",), "lasso", True),
    Command("tool.landmark", "Landmarks: the shapes follow", "Tools", ("L",), "landmark", True),
    Command("tool.draw", "Draw a shape (click the first point: matte; Return: seam)", "Tools", ("B",), "draw", True),
    Command("tool.reshape", "Reshape with falloff (Shift+drag: size)", "Tools", ("R",), "reshape", True),
    Command("tool.points", "Add points (Ctrl: take away)", "Tools", ("P",), "points", True, None, ("+",)),
    Command("tool.transform", "Move, scale, rotate", "Tools", ("T",), "transform", True, ("Shift+T",)),
    Command("tool.width", "Seam width (Shift: softness)", "Tools", ("S",), "width", True),
    Command("tool.clone", "Clone touch-up (Ctrl: copy from here)", "Tools", ("K",), "clone", True),
    Command("tool.crop", "Crop box", "Tools", ("C",), "crop", True),
    Command("edit.smooth", "Smooth points", "Points", ("Z",), "", False, ("Alt+S",)),
    Command("edit.cusp", "Cusp points", "Points", ("Shift+Z",), "", False, ("Alt+C",)),
    Command("edit.join", "Join broken tangents", "Points", ("J",)),
    Command("edit.mirror", "Mirror tangents: one line, one length", "Points", ("Shift+J",)),
    Command("edit.delete", "Delete points", "Points", ("Del", "Backspace")),
    Command("edit.select_all", "Select all points", "Points", ("Ctrl+A",)),
    Command("edit.select_none", "Select nothing", "Points", ("Ctrl+D",)),
    Command("rename", "Rename the shape", "Points", ("F2",)),
    Command("edit.duplicate_shape", "Duplicate the shape", "Points", ("Ctrl+Shift+D",)),
    Command("edit.delete_shape", "Delete the shape", "Points", ("Ctrl+Del", "Ctrl+Backspace")),
    Command("edit.hold_out", "Hold out: take the shape away from all mattes, or no more", "Points", ("Shift+H",)),
    Command("edit.group", "Group the shapes: one transform with keys", "Points", ("Ctrl+G",)),
    Command("edit.ungroup", "Ungroup: shapes stay where they are seen", "Points", ("Ctrl+Shift+G",)),
    Command("edit.begin_here", "Shape is seen from this frame on", "Points", ("Alt+[",)),
    Command("edit.end_here", "Shape is seen up to this frame", "Points", ("Alt+]",)),
    Command("edit.hide_here", "Hide the shape on this frame, or show it", "Points"),
    Command("edit.always_seen", "Shape is seen on every frame", "Points"),
    Command("edit.next_shape", "Next shape", "Points", ("PgDown",)),
    Command("edit.previous_shape", "Previous shape", "Points", ("PgUp",)),
    Command("edit.feather_more", "Feather one pixel more", "Points", ("E",)),
    Command("edit.feather_none", "No feather", "Points", ("Shift+E",)),
    Command("edit.nudge_left", "Nudge left, 1 px", "Points", ("Alt+Left", "Num+4", "Ctrl+Shift+Left")),
    Command("edit.nudge_left_fine", "Nudge left, 0.1 px", "Points", ("Ctrl+Alt+Left", "Ctrl+Num+4")),
    Command("edit.nudge_left_far", "Nudge left, 10 px", "Points", ("Alt+Shift+Left", "Shift+Num+4")),
    Command("edit.nudge_right", "Nudge right, 1 px", "Points", ("Alt+Right", "Num+6", "Ctrl+Shift+Right")),
    Command("edit.nudge_right_fine", "Nudge right, 0.1 px", "Points", ("Ctrl+Alt+Right", "Ctrl+Num+6")),
    Command("edit.nudge_right_far", "Nudge right, 10 px", "Points", ("Alt+Shift+Right", "Shift+Num+6")),
    Command("edit.nudge_up", "Nudge up, 1 px", "Points", ("Alt+Up", "Num+8", "Ctrl+Shift+Up")),
    Command("edit.nudge_up_fine", "Nudge up, 0.1 px", "Points", ("Ctrl+Alt+Up", "Ctrl+Num+8")),
    Command("edit.nudge_up_far", "Nudge up, 10 px", "Points", ("Alt+Shift+Up", "Shift+Num+8")),
    Command("edit.nudge_down", "Nudge down, 1 px", "Points", ("Alt+Down", "Num+2", "Ctrl+Shift+Down")),
    Command("edit.nudge_down_fine", "Nudge down, 0.1 px", "Points", ("Ctrl+Alt+Down", "Ctrl+Num+2")),
    Command("edit.nudge_down_far", "Nudge down, 10 px", "Points", ("Alt+Shift+Down", "Shift+Num+2")),
    Command("edit.set_key", "Set key", "Keys", ("Ctrl+K",)),
    Command("edit.delete_key", "Delete key", "Keys", ("Ctrl+Shift+K",)),
    Command("track", "Track: follow the surface under the shape from its keys", "Keys", ("Ctrl+Shift+T",)),
    Command("edit.hold", "Hold from this key", "Keys", ("Ctrl+H",)),
    Command("edit.linear", "Go on linearly from this key", "Keys", ("Ctrl+L",)),
    Command("edit.ease", "Ease out of this key and into the next", "Keys"),
    Command("edit.run_smoothly", "Run smoothly through this key", "Keys"),
    Command("edit.copy_key", "Copy key", "Keys", ("Ctrl+C",)),
    Command("edit.paste_key", "Paste key", "Keys", ("Ctrl+V",)),
    Command("edit.paste_key_relative", "Paste key where the shape stands", "Keys", ("Ctrl+Shift+V",)),
    Command("edit.ripple", "Edit every key of the range, relative", "Keys", ("Shift+R",), "", True, ("Shift+M",)),
    Command("edit.overwrite", "Edit every key of the range, absolute", "Keys", ("Ctrl+Shift+R",), "", True),
    Command("wipe", "Wipe between plate and clean plate", "View", ("W",), "wipe", True),
    Command("flip", "Show the clean plate", "View", ("`",), "flip", True),
    Command("difference", "Difference of the clean plate to the plate", "View", ("D",), "", True),
    Command("difference_last", "Difference of the preview to the last render", "View", ("Shift+D",), "", True),
    *(Command(f"channel.{name}", label, "View", keys, "", True) for name, label, keys in _CHANNEL_KEYS),
    Command("overlay.splines", "Splines", "View", ("Shift+Q",), "splines", True),
    Command("overlay.landmarks", "Landmarks", "View", ("Shift+L",), "landmarks", True),
    Command("overlay.mattes", "Mattes", "View", ("M",), "mattes", True, ("A",)),
    Command("overlay.onion", "Onion skin: the keys before and after", "View", ("Shift+O",), "onion", True),
    Command("overlay.loupe", "Loupe while dragging", "View", ("G",), "", True),
    Command("overlays", "Everything drawn over the plate", "View", ("Q",), "", True, ("V", "Q")),
    Command("pane.tools", "Tools at the left", "View", ("F7",), "", True),
    Command("pane.inspector", "Inspector", "View", ("F8",), "", True),
    Command("pane.timeline", "Timeline", "View", ("F9",), "", True),
    Command("full_screen", "Full screen (Esc leaves it)", "View", ("Shift+F11", "Ctrl+Shift+F"), "", True),
    Command("only_viewer", "Only the viewer: hide the other panes", "View", ("F11",), "", True),
    Command("canvas.fit_face", "Fit the face", "View", ("F",), "face"),
    Command("canvas.fit", "Fit the plate", "View", ("H",), "fit"),
    Command("canvas.one_to_one", "One plate pixel to one screen pixel", "View", ("1",)),
    Command("canvas.zoom_in", "Zoom in", "View", ("=", "Ctrl+=")),
    Command("canvas.zoom_out", "Zoom out", "View", ("-", "Ctrl+-")),
    Command("canvas.brush_larger", "Larger brush", "View", ("]",)),
    Command("canvas.brush_smaller", "Smaller brush", "View", ("[",)),
    Command("play", "Play", "Playback", ("Space",), "play", True),
    Command("next", "Next frame", "Playback", ("Right",), "next", False, ("X", "Right")),
    Command("previous", "Previous frame", "Playback", ("Left",), "previous", False, ("Z", "Left")),
    Command("next_ten", "Ten frames on", "Playback", ("Shift+Right",), "", False, None, ()),
    Command("previous_ten", "Ten frames back", "Playback", ("Shift+Left",), "", False, None, ()),
    Command("next_key", "Next key", "Playback", ("Ctrl+Right",), "", False, None, ("Ctrl+Right", "Shift+Right")),
    Command("previous_key", "Previous key", "Playback", ("Ctrl+Left",), "", False, None, ("Ctrl+Left", "Shift+Left")),
    Command("first", "First frame", "Playback", ("Home",), "first"),
    Command("last", "Last frame", "Playback", ("End",), "last"),
    Command("range_in", "In: play, edit and run from here", "Playback", ("I",)),
    Command("range_out", "Out: play, edit and run up to here", "Playback", ("O",)),
    Command("range_all", "No In and Out: all frames", "Playback", ("Ctrl+I",)),
    Command("worst", "Worst frame, then the next", "Review", ("N", "Up"), "worst"),
    Command("worst_back", "Back to a worse frame", "Review", ("Shift+N", "Down"), "worst_back"),
    Command("accept", "Accept", "Review", ("Y",), "accept", True),
    Command("accept_next", "Accept, and on to the next worst", "Review", ("Shift+Y",)),
    Command("needs_work", "Needs work", "Review", ("X",), "needs_work", True, ("Shift+X",)),
    Command("reject", "Rejected", "Review", ("Shift+X",), "reject", True, ("Ctrl+Shift+X",)),
    Command("note", "Write a note to this frame", "Review", ("Ctrl+M",)),
    *(Command(way.name, way.label, "Review", *_SPREAD_KEYS.get(way.name, ((), ""))) for way in SPREADS),
    Command("teach", "Teach shot", "Review", ("Ctrl+T",), "teach"),
    Command("learn_shot", "Learn shot", "Review", ("Ctrl+Alt+T",), "learn_shot"),
    Command("before", "The curves before Spread, Refit or Teach, while held", "Review", ("U",), "", True),
    Command("last_version", "Shapes and clean plate of the last save or run, held", "Review", ("Shift+U",), "", True),
    Command("spread_shorter", "Reach one frame less on each side", "Review", ("Shift+[",)),
    Command("spread_longer", "Reach one frame more on each side", "Review", ("Shift+]",)),
    Command("run", "Run (between In and Out)", "Shot", ("Ctrl+Return", "F5")),
    Command("run_all", "Run all frames", "Shot", ("Ctrl+Alt+Return", "Shift+F5")),
    Command("run_anyway", "Run, and paint what the model doubts to be a face, too", "Shot"),
    Command("find_face", "Find the face: a crop box here", "Shot", ("Shift+C",)),
    Command("next_face", "Next face of the shot", "Shot", ("Alt+PgDown",)),
    Command("preview_seam", "Preview the seam on this frame", "Shot", ("Shift+P",), "preview", True),
    Command("clear_touchup", "Take the touch-up off this frame", "Shot"),
    Command("take_off_rig", "Remove the rig: fill the selected closed shapes (between In and Out)", "Shot"),
    Command("learn", "Learn from this show: train a pack from projects", "Shot"),
    Command("make_clean", "Render the clean plate (between In and Out)", "Shot", ("Ctrl+Shift+Return", "F6")),
    Command("make_all", "Render all frames of the clean plate", "Shot", ("Ctrl+Alt+Shift+Return", "Shift+F6")),
)


def command(name: str) -> Command:
    """The command of that name. Raises KeyError."""
    return {each.name: each for each in COMMANDS}[name]


def keys_of_preset(preset: Preset, own: Mapping[str, KeySequences] | None = None) -> dict[str, KeySequences]:
    """The keys of every command: a preset's, with the user's own in their place."""
    own = own or {}
    return {each.name: tuple(own.get(each.name, each.keys_in(preset))) for each in COMMANDS}


def conflicts(keys: Mapping[str, KeySequences]) -> dict[str, tuple[str, ...]]:
    """Keys that belong to more than one command, with the names of those commands."""
    takers: dict[str, list[str]] = {}
    for name, each in keys.items():
        for key in each:
            takers.setdefault(key, []).append(name)
    return {key: tuple(names) for key, names in takers.items() if len(names) > 1}
