"""Test cluster: a real Kubernetes."""
