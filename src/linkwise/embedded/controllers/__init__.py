"""Controllers: Deployments, ReplicaSets, Jobs, Volcano's controllers, pod garbage collection and event expiry."""
