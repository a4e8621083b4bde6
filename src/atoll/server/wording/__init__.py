"""How what is told piece by piece is written: events, lines, Arrow, Parquet, framed values."""
