"""Words: how the users of five systems say what they want, and how answers are written down for them."""
