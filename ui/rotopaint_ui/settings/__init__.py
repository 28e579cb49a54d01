"""The table of commands with their shortcuts, and the user's preferences. No Qt."""
