"""Every operation in plain `keras.ops`, with its equation: the form that runs on any machine."""
