"""The parts of `rotopaint bench load`: one shot encoded in many ways, readers for each, and the measurement."""
