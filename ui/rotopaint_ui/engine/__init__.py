"""The engine's processes as the screens see them, and the two small programs that run in them. Nothing here blocks."""
