"""Segmentation of seam and face in a crop (`matte.onnx`), with a separate edge branch."""
