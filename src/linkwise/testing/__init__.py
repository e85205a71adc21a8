"""Helpers that ship: for our own tests, and for whoever adds a policy or a vendor."""
