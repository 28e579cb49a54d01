"""The project file of a shot: one SQLite file that every gesture is written into."""
