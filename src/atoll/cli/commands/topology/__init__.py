"""Commands about one running topology."""
