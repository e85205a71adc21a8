"""The bed of the tests on a real Kubernetes."""
