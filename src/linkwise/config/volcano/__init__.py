"""Configuration of Volcano's scheduler with Linkwise as its extender."""
