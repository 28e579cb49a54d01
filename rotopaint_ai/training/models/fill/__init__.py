"""What takes seams off, learned: the light table of `seams/relight.py` and the network of a pack's `fill.onnx`."""
