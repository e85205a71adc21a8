"""Explanations as sentences."""
