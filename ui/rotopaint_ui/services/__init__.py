"""Work without a widget: opening shots, runs, autosave, playback, previews, the review loop. Signals tell of it."""
