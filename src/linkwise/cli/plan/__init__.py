"""Planning a group without a cluster, for `linkwise plan`."""
