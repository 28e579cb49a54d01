"""The open shot: its state, undo, corrections, run record and project file. No Qt, no numpy.

- `session` is the shot, with the parts below; `selection` is what is selected of it.
- Edits: `edit_stack` (state, gestures, undo) over `history` (steps); `correction_edits` (landmark drags, spreads,
  refits), `seam_settings`, `shape_names`, `brush` (touch-up).
- Runs: `shot_runs` (run records), `live_document` (shapes of the current run), `painting` (clean frames on disk).
- Review: `review_state`, `error_scale` (colours), `spread_reach`, `worked_marks`, `repeats` (corrections that repeat
  themselves), `key_diff` (keys that an edit moved).
- Files: `project_file` over `project_store` (writes steps), `shapes_file`, `shot_files`, `xsheet` (exposure sheet).
"""
