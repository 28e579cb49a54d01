"""Data only: one folder per shipped model pack, and `sample/`, the shot that `rotopaint demo` runs on.

A pack holds `sheet.yaml`, `landmarks.onnx`, `shapes.onnx`, optionally `seam.onnx` and `fill.onnx`, and `card.json`,
which records the command that trained it, the data, the measured figures, the licence and the SHA-256 of each file. The
sample shot and the training data come from `python -m rotopaint_ai.stage`; nothing here was downloaded.
"""
