"""Helpers of tests, bench/ and scripts/ that the wheel does not ship."""
