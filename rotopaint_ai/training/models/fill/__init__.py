"""Learned seam removal: the relight table of `seams/relight.py` and the network of a pack's `fill.onnx`."""
