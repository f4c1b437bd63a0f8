"""What arguments may be, names above all; the command line reads them without importing Keras."""

CELLS = ("gru", "lstm")
# Which state of the decoder asks the attention.
ATTENTION_QUERIES = ("previous_state", "current_state")
READOUTS = ("linear", "tanh", "maxout", "state")
# Maps from the final states of the encoder to the first ones of the decoder.
INITIAL_STATES = ("linear", "tanh")
# Whose embedding is also the output matrix.
TIED = ("none", "target", "all")
OUTPUTS = ("softmax", "latent")
# How the latent alignment is summed over in training, or what takes the place of the sum.
MARGINALIZATIONS = ("exact", "top_k", "max", "hard")
# Whether positions that are left out of that sum get a gradient.
TOP_K_GRADIENTS = ("selected", "straight_through")
# Where the layer norm stands in a sublayer of a Transformer.
NORMALIZATIONS = ("post", "pre")
# What normalises there.
NORMS = ("layer", "rms")
# Activations of gated networks, by that of the gate.
GATES = {"swiglu": "silu", "geglu": "gelu"}
ACTIVATIONS = ("relu", "silu", "gelu", "tanh", *GATES)
# Of the probabilities that the members of an ensemble give a token.
MEANS = ("arithmetic", "geometric")
# Statistical aligners: ours, and those of other packages.
ALIGNERS = ("ibm1", "hmm", "fast_align", "eflomal")
# What self-attention knows of positions, in place of what is added to embeddings.
RELATIVE_POSITIONS = ("rotary", "alibi", "shaw", "t5")
POSITIONS = ("sine", "halved_sine", "learned", "none", *RELATIVE_POSITIONS)
# Bounds of a beam search: its beams, and the exponent of its length penalty.
MOST_BEAMS, HIGHEST_PENALTY, LOWEST_TEMPERATURE = 1000, 10, 0.001
# Tokens of a sentence or a translation, in a run and in a search: above the length of any.
MOST_TOKENS = 10_000
