"""What tasks count of the rows that they hand on, and whether it adds up."""
