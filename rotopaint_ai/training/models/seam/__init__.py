"""The network that refines seam positions: net, examples, training, and tuning to one character (`task`)."""
