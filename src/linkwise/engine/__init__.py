"""Decisions on asks, and the sentences that explain them."""
