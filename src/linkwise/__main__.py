"""Lets `python -m linkwise` do what `linkwise` does."""

from linkwise.cli.main import run

run()
