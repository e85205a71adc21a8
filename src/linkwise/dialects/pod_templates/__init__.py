"""Pod templates: the pods that the controllers of each kind create, read from the object alone."""
