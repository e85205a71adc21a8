"""Options and arguments shared by several commands."""
