"""Draw the weights of every attention layer on one toy sentence: `images/layers-cross.png`, `images/layers-self.png`.

Nothing is trained. Each word is a unit vector, each position another; a target word asks for the source word that it
translates and, less so, for its own position. What a mechanism adds to that is set by hand, in the `picture` of its
reference. The playgrounds of the site's gallery get the same weights, and those of other arguments.

  KERAS_BACKEND=jax python -m docs.draw_layers
"""

import json
from pathlib import Path

import numpy as np
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from keras_attn_zoo.layers.base.normalizers import NORMALIZERS
from keras_attn_zoo.site.toy_weights import TOY_WEIGHTS
from keras_attn_zoo.support.files import write_text
from keras_attn_zoo.viewing.attention_pictures import plot_attentions
from tests.layers.references import REFERENCES

SOURCE = ["die", "Bäuerin", "füttert", "die", "Gänse"]
TARGET = ["the", "farmer", "feeds", "the", "geese"]
WIDTH = 16
EYE = np.eye(WIDTH)
# How strongly a word asks, beside how strongly it does in the pictures.
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)


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


def weights_of(name, place, strengths=(1.0,), **arguments):
    """Scores of one layer, `(strengths, target, source)`."""
    query, value = sentences()
    arguments = {**REFERENCES[name].picture[0], **arguments}
    layer = get_attention(name, WIDTH, num_heads=1, max_length=len(SOURCE), place=place, **arguments)
    factors = np.array(strengths, "float32")[:, None, None]
    # A word that asks itself is query and key.
    inputs = (query * factors, value.repeat(len(strengths), 0)) if place == "cross" else (query * np.sqrt(factors),)
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
    return ops.convert_to_numpy(scores)[:, 0]


def settings(name):
    """Arguments of the playground of a mechanism: those of the picture, then one changed at a time."""
    yield {}
    for argument, values in REFERENCES[name].playground.items():
        yield from ({argument: value} for value in values)
    if not ATTENTIONS[name].layer.softmax_alone:
        yield from ({"normalizer": normalizer} for normalizer in NORMALIZERS if normalizer != "softmax")


def playground(name):
    """The weights of a mechanism in every place and setting; for each strength, unless it changes nothing."""
    places = [place for place in ("cross", "decoder", "encoder") if place in ATTENTIONS[name].places]
    # The encoder's weights are those of the decoder, but for the mask.
    for place in places[: 1 + ("cross" in places)]:
        for arguments in settings(name):
            weights = np.round(weights_of(name, place, STRENGTHS, **arguments).astype("float64"), 3)
            shown = weights if np.ptp(weights, axis=0).max() > 0.002 else weights[:1]
            yield {"place": place, "arguments": arguments, "weights": shown.tolist()}


def toy_weights():
    """What the playgrounds show, as JSON: a line for each setting."""
    mechanisms = []
    for name in ATTENTIONS:
        found = ",\n  ".join(json.dumps(one, separators=(",", ":")) for one in playground(name))
        mechanisms.append(f'"{name}": [\n  {found}\n]')
    head = json.dumps({"source": SOURCE, "target": TARGET, "strengths": STRENGTHS}, ensure_ascii=False)
    together = ",\n".join(mechanisms)
    return f'{head[:-1]}, "mechanisms": {{\n{together}\n}}}}\n'


def main():
    """Draw both pictures, and write the weights of the playgrounds."""
    folder = Path(__file__).parent / "images"
    for place, file, target in (("cross", "layers-cross.png", TARGET), ("decoder", "layers-self.png", SOURCE)):
        names = [name for name, entry in ATTENTIONS.items() if place in entry.places]
        panels = [(name.replace("_", " "), weights_of(name, place)[0]) for name in names]
        if place == "cross":
            panels.append(("luong dot, entmax15", weights_of("luong_dot", place, normalizer="entmax15")[0]))
        plot_attentions(panels, SOURCE, target, folder / file)
        print(folder / file)
    write_text(TOY_WEIGHTS, toy_weights())
    print(TOY_WEIGHTS)


if __name__ == "__main__":
    main()
