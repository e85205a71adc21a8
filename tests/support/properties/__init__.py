"""Worlds in which anything may happen, what must stay true there, and strategies."""
