"""Test bed, chaos and invariants of the embedded cluster."""
