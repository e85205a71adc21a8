"""Test helpers for extensions: builders of machines, nodes and clusters, a recording performer, a scenario runner."""
