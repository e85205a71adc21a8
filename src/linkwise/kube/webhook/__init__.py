"""Certificates of the admission webhook in the cluster: the secret, and the trust of the API server."""
