"""Runtimes: pipelines of runtime actors that are declared in JSON, without Python.

Depends on ``cluster`` and below. Within it ``definition``, ``actors`` and the modules that they use
are pure: they take data and return data, know neither Spark nor the cluster, and perform nothing.
"""
