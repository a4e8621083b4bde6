"""A running service as its clients hold it: the interface of a local app, over HTTP."""
