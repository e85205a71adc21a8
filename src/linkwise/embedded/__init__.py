"""A Kubernetes cluster in one process: API server, scheduler, controllers and simulated nodes."""
