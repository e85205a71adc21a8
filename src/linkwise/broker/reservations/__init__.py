"""Reservations: nodes drained for the first in the queue, and the devices kept free for it."""
