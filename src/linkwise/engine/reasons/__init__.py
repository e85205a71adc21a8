"""Every refusal as data, and its sentences in one table."""
