"""Tables, matrices and drawings shared by several commands."""
