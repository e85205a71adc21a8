"""Usage of a node's devices: readings, attributed to the pods of processes."""
