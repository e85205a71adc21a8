"""Kubernetes objects: decoded from lists, watch streams and manifests into views, and encoded for writes."""
