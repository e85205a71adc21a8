"""Snapshots of a broker as JSON."""
