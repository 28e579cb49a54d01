"""RotoPaint AI in Nuke: a thin layer between Nuke and the product. It loads no heavy libraries into Nuke.

- Put `startup/` on NUKE_PATH; it adds the menu. `host` is the panel's interface to Nuke.
- `roto_node` builds and updates our node, `clean_merge` sets up the clean plate, `batch` does both without a screen.
"""
