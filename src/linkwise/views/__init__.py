"""Read-only views of a cluster for clients: tables, explanations and lookups by name.

The service answers with them, and the command line computes the same from a cluster that it has read itself.
"""
