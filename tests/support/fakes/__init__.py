"""Fakes of the outside: an API by script, a performer that records."""
