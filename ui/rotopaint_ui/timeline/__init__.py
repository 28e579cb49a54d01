"""The timeline: strips on one axis. `Timeline` in `timeline.timeline` is the widget, a module for each strip."""
