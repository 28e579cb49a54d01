"""The parts of `rotopaint bench train`: processes that train, and the measurement of their rates."""
