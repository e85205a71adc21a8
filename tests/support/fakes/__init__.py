"""Fakes of the outside world: a scripted API server, the service with a recorder."""
