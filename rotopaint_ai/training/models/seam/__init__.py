"""The network that places seams exactly: its examples, its training, and its tuning to one character."""
