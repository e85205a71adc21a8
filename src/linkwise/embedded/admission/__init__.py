"""Admission webhooks: which apply to a write, calling them, and what they change, deny or warn about."""
