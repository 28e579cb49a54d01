"""Strokes, colours and labels on a QPainter. Nothing here knows a session or a widget."""
