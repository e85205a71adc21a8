"""Device selection and output of `linkwise pick`."""
