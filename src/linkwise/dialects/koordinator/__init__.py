"""Koordinator: asks in percent, Device objects and allocation records."""
