"""RotoPaint AI: editable roto splines, seam mattes and clean plates for 3D-printed puppet faces.

Importing this package loads the standard library only; each room imports what it needs when it is used.
"""

__version__ = "0.1.0"
