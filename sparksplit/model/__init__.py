"""The model: what its builder is told of the data, how it is built, fed and exported; users' own functions."""
