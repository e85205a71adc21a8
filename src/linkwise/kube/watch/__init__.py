"""Watches: what is watched, the reflector, and lists that are read once."""
