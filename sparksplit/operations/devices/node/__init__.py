"""What runs in the fresh interpreter of one process's look at its devices; the only part that imports TensorFlow."""
