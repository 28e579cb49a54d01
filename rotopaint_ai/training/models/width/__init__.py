"""How wide seams are, learned: the numbers of `seams/width_table.py`."""
