"""Checks of a cluster: what is wrong with an installation, and what to do."""
