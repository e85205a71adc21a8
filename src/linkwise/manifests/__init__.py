"""Manifests: the objects of a YAML text with their positions, and the pods that they create."""
