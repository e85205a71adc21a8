"""Object storage: collections with a watch history, lists, watches and selectors."""
