"""Choices of devices on one node: worth, reason and runner-up."""
