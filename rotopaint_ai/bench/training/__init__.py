"""The parts of `rotopaint bench train`: a process that takes steps and tells its rate, and what measures it."""
