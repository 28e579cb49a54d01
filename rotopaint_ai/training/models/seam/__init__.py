"""The network that places seams exactly: `net`, its examples, its training and its tuning to one character (`task`)."""
