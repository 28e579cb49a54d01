"""Learned seam removal: the network of a pack's `fill.onnx`."""
