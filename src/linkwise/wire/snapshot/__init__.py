"""The snapshot of a broker as JSON."""
