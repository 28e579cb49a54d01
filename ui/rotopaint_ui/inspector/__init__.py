"""What stands at the right of the viewer: a module for each tab, `Inspector` in `inspector.inspector`."""
