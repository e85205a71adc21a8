"""Kubernetes client: kubeconfig, credentials, authenticated calls, discovery and server-side apply."""
