"""Node decisions: which devices a container gets and what it sees, and what a node publishes. Pure."""
