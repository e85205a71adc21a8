"""A cluster in one process: an API server in memory, nodes that play, and a scheduling loop."""
