"""Cluster with a service, chaos and invariants of the embedded cluster."""
