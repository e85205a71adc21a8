"""Optimisations: caches and fast constructors that change no result."""
