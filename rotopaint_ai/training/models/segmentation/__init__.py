"""Segmentation: a network with a stream of its own for edges, which sees seam and face in a crop (`matte.onnx`)."""
