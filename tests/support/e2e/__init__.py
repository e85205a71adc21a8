"""Test bed on a real Kubernetes."""
