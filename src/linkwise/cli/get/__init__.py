"""Rows and tables of `linkwise get`."""
