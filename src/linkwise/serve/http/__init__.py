"""The HTTP server: connections, time limits and endpoints."""
