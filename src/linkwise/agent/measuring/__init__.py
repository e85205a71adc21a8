"""Measured bandwidth on this node: devices held for a measurement, and the driver that adds its results."""
