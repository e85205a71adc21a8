"""Kubernetes API access: client, watches, and the performer that writes effects."""
