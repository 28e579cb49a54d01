"""The panel as a program of its own: window, menus, welcome page, preferences and shortcuts."""
