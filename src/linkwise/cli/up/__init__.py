"""Running, announcing and leaving the cluster of `linkwise up`."""
