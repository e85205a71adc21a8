"""Certificates kept in the cluster: Secrets that replicas share, and the trust of the API server in the webhook."""
