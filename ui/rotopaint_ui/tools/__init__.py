"""What the mouse and the keys do in the viewer: a module for each tool, each drag one undo step."""
