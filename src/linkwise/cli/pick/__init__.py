"""Choosing devices of one machine, for `linkwise pick`."""
