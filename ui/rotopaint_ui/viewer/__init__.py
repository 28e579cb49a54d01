"""The viewer: `Canvas` is the widget; plates, outlines, onion skins, wipe and loupe are drawn by its modules."""
