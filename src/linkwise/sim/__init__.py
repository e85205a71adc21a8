"""Simulation: a cluster's past, decided again."""
