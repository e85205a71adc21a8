"""HTTP and clocks, shared by the Kubernetes client, the service and the embedded cluster."""
