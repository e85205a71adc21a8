"""Groups and gangs: readiness, planning, reservations and eviction of stale gangs."""
