"""Let the rows of a stream leave Atoll: ``stream.write_to(sink, name=...)``."""
