"""The page that a supervisor opens after a run, made only from `run.json` and pictures.

`page` is the entry point. Its parts: `tiles` (figures at the top), `charts` (drawn by `curves`), `pictures`, `tables`;
`page_elements` and `templates` are shared. `evaluation` is the page of a pack's evaluation.
"""
