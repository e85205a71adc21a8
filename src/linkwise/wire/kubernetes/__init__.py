"""Kubernetes objects: JSON to views and back, lists and watch streams."""
