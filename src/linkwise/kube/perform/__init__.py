"""Effects carried out on the API server: bindings, annotations, evictions, events."""
