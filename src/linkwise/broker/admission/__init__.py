"""Admission: which pods and workloads may be created, and how they are changed. Reads documents, changes nothing itself."""
