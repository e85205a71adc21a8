"""APIs of the supported systems: pods and nodes to values, grants to annotations."""
