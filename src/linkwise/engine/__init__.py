"""Scheduling decisions as pure functions and plain state: usage, node index, offers, group plans and refusals."""
