"""Reports: explanations as values, before they are put into sentences."""
