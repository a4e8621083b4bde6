"""Keys as bytes that sort as the values do, one at a time and by columns."""
