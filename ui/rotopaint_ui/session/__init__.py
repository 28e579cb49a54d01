"""The open shot: its state, undo, corrections, run record and project file. No Qt, no numpy."""
