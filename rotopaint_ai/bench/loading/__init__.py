"""The parts of `rotopaint bench load`: one shot encoded in many formats, readers for each, and the measurement."""
