"""Planning and output of `linkwise plan`."""
