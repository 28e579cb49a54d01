"""The panel as a standalone program: window, menus, welcome page, preferences and shortcuts."""
