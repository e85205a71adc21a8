"""Guided tour of `linkwise demo`: stories on an embedded cluster, compared with a topology-unaware scheduler."""
