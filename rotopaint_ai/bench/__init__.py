"""The measurements of `rotopaint bench`: one light module per kind, with `add_arguments` and `measure`.

A kind returns one JSON object. Every claim in it is a ratio of two things measured alternately in one run. The code
that measures is in separate modules beside it and is imported late.
"""
