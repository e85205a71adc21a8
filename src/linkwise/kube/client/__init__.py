"""The client: connection, credentials, kubeconfig, discovery and apply."""
