"""What the viewer draws, and how it keeps what does not change: plates, outlines, onion skins, wipe, loupe, playing."""
