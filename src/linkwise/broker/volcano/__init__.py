"""Volcano: the decisions for its extender plugin, and the pods that it schedules."""
