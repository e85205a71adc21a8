"""State machines of property tests, their invariants, and strategies."""
