"""The scheduler service: one broker behind the extender API, health probes, metrics and debug routes."""
