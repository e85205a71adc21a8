"""HTTP: the front doors of the scheduler service."""
