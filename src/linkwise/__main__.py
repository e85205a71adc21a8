"""Entry point of `python -m linkwise`, the same as `linkwise`."""

from linkwise.cli.main import run

if __name__ == "__main__":
    run()
