"""The guided tour: a cluster of its own, the stories that are told on it, and what a link-blind scheduler would do."""
