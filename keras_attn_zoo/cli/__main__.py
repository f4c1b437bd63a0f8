"""`python -m keras_attn_zoo.cli` is `attn-zoo`."""

import sys

from keras_attn_zoo.cli import main

sys.exit(main())
