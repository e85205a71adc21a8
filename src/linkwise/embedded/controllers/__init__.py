"""Controllers of the controller manager: Deployments, ReplicaSets, Jobs, pod garbage collection and event expiry."""
