"""The HTTP client and the clocks that more than one of the outer layers use."""
