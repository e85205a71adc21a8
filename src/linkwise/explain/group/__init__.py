"""Groups: stage, plan, shortage, and why another plan lost."""
