"""RotoPaint AI in Nuke: thin translation between Nuke's words and ours. Nothing heavy is loaded into Nuke.

- `startup/` goes on NUKE_PATH and adds the menu; `host` is Nuke as the panel sees it.
- `roto_node` builds and updates our node, `clean_merge` sets up the clean plate, `batch` does both without a screen.
"""
