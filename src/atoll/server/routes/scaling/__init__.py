"""The cluster: how it is, and changing where fragments run."""
