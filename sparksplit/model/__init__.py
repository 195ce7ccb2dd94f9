"""The model: the data description for its builder, and how the model is built, fed and exported.

Loads the user's own functions.
"""
