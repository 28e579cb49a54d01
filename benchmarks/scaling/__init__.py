"""The parts of `python -m benchmarks.scaling`: a rank that trains, hosts in namespaces, the model, the table."""
