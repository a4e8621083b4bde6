"""What a new version does to what is stored: migrations, mirrors, the meaning of values."""
