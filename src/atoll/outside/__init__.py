"""Asking what is outside over HTTP: which addresses may be asked, and one request."""
