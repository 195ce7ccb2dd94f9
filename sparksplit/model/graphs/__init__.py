"""What a model is fed and judged with, inside TensorFlow graphs: stored values, labels and the weights of rows."""
