"""Broker: turns observed pods and nodes into scheduling decisions, for the service, the command line and replay."""
