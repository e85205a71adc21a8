"""Beds, chaos and invariants of the cluster in one process."""
