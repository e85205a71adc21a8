"""Inventory of a node, merged from all sources: devices, links, health."""
