"""The panel: widgets and services of one shot, tied together. `Panel` in `panel.panel` is what hosts show."""
