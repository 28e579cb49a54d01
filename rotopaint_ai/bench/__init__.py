"""What `rotopaint bench` measures: one light module per kind, with `add_arguments` and `measure`.

A kind gives one JSON object; every claim in it is a ratio of things that took turns in one run. What it measures with
stands in modules of its own beside it, imported late.
"""
