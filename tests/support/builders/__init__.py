"""Builders of pods, inventories and outputs of tools."""
