"""Small widgets, icons, dialogs, and which keys belong to the widget with the focus."""
