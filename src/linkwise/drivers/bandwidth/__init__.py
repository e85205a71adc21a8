"""Bandwidth between devices: tests that measure it, and their output added to a discovery."""
