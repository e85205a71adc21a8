"""Leader election among replicas: the Lease, the fence of writes, and the EndpointSlice that leads to the leader."""
