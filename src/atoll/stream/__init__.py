"""The fluent face of a topology."""
