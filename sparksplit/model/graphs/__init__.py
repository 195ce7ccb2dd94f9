"""A model's inputs, labels and row weights inside TensorFlow graphs."""
