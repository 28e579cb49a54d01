"""Segmentation of what stands in front of a face, and of its skin (`matte.onnx`), with a separate edge branch."""
