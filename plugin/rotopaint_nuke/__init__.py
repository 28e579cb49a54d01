"""RotoPaint AI in Nuke: thin translation between Nuke's words and ours. Nothing heavy is loaded into Nuke."""
