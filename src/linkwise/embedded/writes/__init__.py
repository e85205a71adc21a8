"""Write semantics: create, update, patch, apply, delete, bind and garbage collection."""
