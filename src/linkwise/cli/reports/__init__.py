"""What single commands work out and show."""
