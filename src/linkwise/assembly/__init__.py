"""Composition root: builds the service, the embedded cluster and cluster readers from kube, serve and embedded."""
