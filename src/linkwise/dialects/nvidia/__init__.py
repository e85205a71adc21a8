"""NVIDIA's device plugin, and the topology annotation of a node."""
