"""Work without a widget: opening shots, runs, autosave, playback, previews, the review loop. Signals tell of it.

- `panel_services` makes all of them for one panel.
- Shots: `opening`, `importer` (dropped shapes), `autosave`, `preference_store`.
- Jobs: `shot_jobs` (runs), `tracker` (Track), `teacher` (Teach shot), `learner` (training).
- Viewing: `player`, `previewer` (the painted seam), `clean_plate` (new clean frames), `review_loop` (N).
"""
