"""Devices that are kept free for those who wait: reservations, evictions and their victims."""
