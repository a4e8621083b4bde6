"""Commands about workers and what runs on them."""
