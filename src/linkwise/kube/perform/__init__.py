"""Performer: writes effects to the API server (bindings, annotations, evictions, events)."""
