"""The live engine: a separate process beside the panel that answers while an artist drags."""
