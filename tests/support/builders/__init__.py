"""Builders of pods, facts and texts of tools."""
