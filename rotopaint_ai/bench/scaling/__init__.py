"""The parts of `rotopaint bench scale`: a rank that trains, hosts in namespaces, the model, and what measures."""
