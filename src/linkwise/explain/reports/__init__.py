"""Explanations as values, before they are put in words."""
