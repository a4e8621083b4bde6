"""Records of depots: checked on their way in, made rows on their way out."""
