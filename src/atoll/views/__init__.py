"""Reading the state of deployed modules as of their last commit; needs no engine."""
