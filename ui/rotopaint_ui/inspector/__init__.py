"""The inspector at the right of the viewer: a module for each tab, and `Inspector` in `inspector.inspector`."""
