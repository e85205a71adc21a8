"""The API server: what it shows, and what is written to it."""
