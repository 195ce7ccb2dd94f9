"""The model: what its builder is told about the data, how it is built, fed and exported; the user's own functions."""
