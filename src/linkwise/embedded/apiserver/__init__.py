"""The API server over HTTP: authentication, routing, request bodies, watches, TLS and fault injection."""
