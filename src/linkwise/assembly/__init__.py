"""Wires the service, the cluster in one process and readers of clusters out of kube, serve and embedded."""
