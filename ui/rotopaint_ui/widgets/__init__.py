"""Small widgets, icons, dialogs, and whose a key is while a widget has the focus."""
