"""Draw the weights of every attention layer on one toy sentence: `images/layers-cross.png`, `images/layers-self.png`.

Nothing is trained. Each word is a unit vector, each position another; a target word asks for the source word that it
translates and, less so, for its own position. What a mechanism adds to that is set by hand, in the `picture` of its
reference.

  KERAS_BACKEND=jax python -m docs.draw_layers
"""

from pathlib import Path

import numpy as np
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from keras_attn_zoo.viewing.attention_pictures import plot_attentions
from tests.layers.references import REFERENCES

SOURCE = ["die", "Bäuerin", "füttert", "die", "Gänse"]
TARGET = ["the", "farmer", "feeds", "the", "geese"]
WIDTH = 16
EYE = np.eye(WIDTH)


def sentences():
    """Source and target as vectors."""
    words = np.stack([EYE[SOURCE.index(word)] for word in SOURCE])
    positions = EYE[len(SOURCE) : 2 * len(SOURCE)]
    source = words + 0.6 * positions
    return 3 * source[None].astype("float32"), source[None].astype("float32")


def by_hand(name):
    """Weights by name that make a match the highest energy, and what the mechanism adds."""
    maps = {f"{part}/kernel": EYE[:, None] for part in ("key", "value")}
    maps |= {"query/kernel": np.sqrt(WIDTH) * EYE[:, None], "attention_output/kernel": EYE[None]}
    additive = {"query_kernel": 2 / 3 * EYE, "key_kernel": 2 * EYE, "energy_kernel": -3.0}
    return {"kernel": EYE, **maps, **additive, **REFERENCES[name].picture[1]}


def weights_of(name, place, **arguments):
    """Scores of one layer, `(target, source)`."""
    query, value = sentences()
    arguments |= REFERENCES[name].picture[0]
    layer = get_attention(name, WIDTH, num_heads=1, max_length=len(SOURCE), place=place, **arguments)
    inputs = (query, value) if place == "cross" else (query,)
    layer.build(*(x.shape for x in inputs))
    rng, given = np.random.default_rng(4), by_hand(name)
    for weight in layer.weights:
        found = given.get(weight.path.split("/", 1)[-1], 0.0)
        if weight.path.endswith(("energies", "matrices", "dense/kernel")) and place != "cross":
            # Trained matrices of positions: any will do.
            found = rng.normal(size=weight.shape)
        if weight.path.endswith("gamma"):
            found = 1.0
        weight.assign(np.broadcast_to(found, weight.shape))
    _, scores = layer(*inputs, use_causal_mask=place != "cross", return_attention_scores=True)
    return ops.convert_to_numpy(scores)[0, 0]


def main():
    """Draw both pictures."""
    folder = Path(__file__).parent / "images"
    for place, file, target in (("cross", "layers-cross.png", TARGET), ("decoder", "layers-self.png", SOURCE)):
        names = [name for name, entry in ATTENTIONS.items() if place in entry.places]
        panels = [(name.replace("_", " "), weights_of(name, place)) for name in names]
        if place == "cross":
            panels.append(("luong dot, entmax15", weights_of("luong_dot", place, normalizer="entmax15")))
        plot_attentions(panels, SOURCE, target, folder / file)
        print(folder / file)


if __name__ == "__main__":
    main()
