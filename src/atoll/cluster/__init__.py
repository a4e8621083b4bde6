"""Deploying modules and running them: the control plane."""
