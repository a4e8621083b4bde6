"""What is looked at now and then while modules run, or should."""
