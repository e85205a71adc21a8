"""The API server over HTTP: routes, bodies, watches, TLS and injected faults."""
