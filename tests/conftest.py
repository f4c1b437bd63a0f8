"""Set-up of all tests: quiet libraries, and no TensorFlow where it is not the backend."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "jax")
if os.environ["KERAS_BACKEND"] != "tensorflow":
    # Proves that the package needs no TensorFlow, and saves the seconds that its import takes.
    sys.modules["tensorflow"] = None
    sys.modules["tensorflow_text"] = None
