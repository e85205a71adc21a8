"""What tests, bench/ and scripts/ share and the wheel does not need."""
