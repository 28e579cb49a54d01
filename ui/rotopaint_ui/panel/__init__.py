"""The panel: widgets and services of one shot, tied together.

- `panel` is the widget that hosts show.
- Widgets: `panel_widgets` makes them, `layout` places them; `toolbars`, `review_bar`, `status_line`; the window
  `learn_window`.
- Commands: `actions` are their Qt actions, `command_handlers` their functions, which are in `shot_commands` and
  `view_commands`.
- Updates: `connections` connects signals, `screen_updates` follows the session, `result_handlers` and `export_runner`
  take results of processes.
- `view_memory` stores the view in the project; `diagnostics` is the text for developers.
"""
