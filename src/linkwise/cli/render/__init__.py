"""Tables, matrices and drawings that several commands show."""
