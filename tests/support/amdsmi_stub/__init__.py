"""Stub of AMD SMI: a library in C that answers from a text file."""
