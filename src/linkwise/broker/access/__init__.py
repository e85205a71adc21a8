"""Access control by AcceleratorPolicies in scheduling, and their status."""
