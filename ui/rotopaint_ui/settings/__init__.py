"""The table of commands with their shortcuts, and what a person has set for good. No Qt."""
