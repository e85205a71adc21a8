"""The rules of the five systems, with the code that implements each and the tests that prove it."""
