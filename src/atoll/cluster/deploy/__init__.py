"""Deployments: a version is checked in full, then takes the place of the one before."""
