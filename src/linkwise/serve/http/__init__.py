"""HTTP server: sockets, connections, time and size limits, and the endpoint that wraps every call."""
