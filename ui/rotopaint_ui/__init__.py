"""Screens: one panel, the same in a host, in the standalone app and under test.

A subpackage may import those below it, never those above or beside it (a contract in `pyproject.toml` checks it):

    standalone   the app around the panel: window, menus, welcome, preferences, shortcuts
    panel        the panel: its rows of buttons, what each command does, what a result changes on the screen
    batch        the batch window: a queue of shots
    inspector    the tabs at the right: shapes, frame, seam, export
    timeline     strips on one axis: frames, thumbnails, errors, keys, review marks
    viewer       the plate, what is drawn over it, and the mouse
    services     work without a widget: opening, runs, autosave, playback, previews, the review loop
    tools        what the mouse and the keys do to shapes, landmarks and the crop box
    engine       the engine's processes: frames, live answers, runs, exports; and the command lines of runs
    session      the open shot: state, undo, corrections, project file. No Qt, no numpy
    drawing      strokes, colours and labels on a QPainter
    widgets      small widgets, icons, dialogs, and whose a key is
    settings     the table of commands and shortcuts, preferences
    host         what the panel asks of the program it lives in

A command is a row in `settings/commands.py` and a function in `panel/command_handlers.py`; an edit by key is a row in
`tools/edit_actions.py`; a tool is a module in `tools/` and a row in `tools/toolbox.py`; a setting is a row in
`settings/preferences.py`; who listens to whom stands in `panel/connections.py`.
"""
