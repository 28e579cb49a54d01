"""The parts of `python -m benchmarks.scaling`: a training rank, hosts in namespaces, the cost model, the table."""
