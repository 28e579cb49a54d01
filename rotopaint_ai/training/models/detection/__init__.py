"""Finding faces on whole plates: a small Mask R-CNN with box, mask and keypoint heads (`detector.onnx` of a pack)."""
