"""Verbs for one pod: filter, bind, and read-only queries."""
