"""Replay: repeats the scheduling decisions of a recorded cluster."""
