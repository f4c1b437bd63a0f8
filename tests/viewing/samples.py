"""Pages of random attention, made without a model."""

import numpy as np

from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.viewing.page import Page
from keras_attn_zoo.viewing.page_records import Mechanism, Path, Result, SearchStep, Sentence, System

SOURCE = ["Er", "ruft", "den", "überglücklichen", "Freund", "an", "."]
SOURCE_TOKENS = ["▁Er", "▁ruft", "▁den", "▁über", "glück", "lichen", "▁Freund", "▁an", ".", "</s>"]
OWN = ["He", "calls", "the", "overjoyed", "friend", "."]
OWN_TOKENS = ["▁He", "▁calls", "▁the", "▁over", "joy", "ed", "▁friend", ".", "</s>"]
GIVEN = ["He", "phones", "his", "friend", "."]
GIVEN_TOKENS = ["▁He", "▁ph", "ones", "▁his", "▁friend", ".", "</s>"]
GOLD = Alignment(sure={(0, 0), (1, 1), (4, 3), (6, 4)}, possible={(5, 1), (2, 2)})
# The tokens of a search of two beams: what each candidate adds, and to which beam.
SEARCH = [
    [("▁He", 0, -0.4), ("▁Her", 0, -1.5), ("▁It", 0, -2.0), ("▁A", 0, -4.0)],
    [("▁calls", 0, -0.9), ("▁phones", 0, -1.4), ("▁calls", 1, -2.5), ("▁friend", 1, -3.5)],
    [("</s>", 1, -1.7), ("▁him", 0, -1.9), ("▁us", 0, -3.0), (".", 1, -3.3)],
    [("", 0, -1.7), (".", 1, -2.3), ("</s>", 1, -2.9), ("▁him", 1, -6.0)],
    [("", 0, -1.7), ("</s>", 1, -2.4), (".", 1, -8.0), ("▁", 1, -9.0)],
]


def rows(rng, *shape, sharp=2.0, causal=False):
    """Random rows that sum to one."""
    energies = sharp * rng.standard_normal(shape)
    if causal:
        energies = np.where(np.tri(*shape[-2:], dtype=bool), energies, -np.inf)
    weights = np.exp(energies)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype("float32")


def system(name="first", layers=2, heads=3, latent=False):
    places = {place: [Mechanism("multi_head", heads)] * layers for place in ("cross", "encoder", "decoder")}
    places["encoder"] = [Mechanism("recurrent", heads, by_position=True)] * layers
    if latent:
        places |= {place: [Mechanism("latent alignment", 1)] for place in ("prior", "posterior")}
    return System(name, places, layers - 1, 2, 0.0)


def path(rng, kind, words, tokens, source, layers=2, heads=3, latent=False):
    size = len(tokens), source
    weights = {
        "cross": [rows(rng, heads, *size) for _ in range(layers)],
        "decoder": [rows(rng, heads, len(tokens), len(tokens), causal=True) for _ in range(layers)],
    }
    if latent:
        weights |= {place: [rows(rng, 1, *size)] for place in ("prior", "posterior")}
    text = " ".join(words).replace(" .", ".")
    return Path(kind, text, words, tokens, np.log(rng.uniform(0.1, 1.0, size=len(tokens))), weights)


def steps(rng, source, heads=3):
    found, ended = [], [False]
    for number, step in enumerate(SEARCH):
        tokens, parents, log_probs = map(list, zip(*step, strict=True))
        ended = [token == "</s>" or ended[parent] for token, parent in zip(tokens, parents, strict=True)]
        attention = rows(rng, 2 if number else 1, heads, source)
        found.append(SearchStep(tokens, parents, log_probs, log_probs, ended, attention))
    return found


def result(seed=0, latent=False, given=True, layers=2, heads=3):
    rng = np.random.default_rng(seed)
    source = len(SOURCE_TOKENS)
    sizes = {"layers": layers, "heads": heads, "latent": latent}
    paths = [path(rng, "own", OWN, OWN_TOKENS, source, **sizes)]
    if given:
        paths.append(path(rng, "given", GIVEN, GIVEN_TOKENS, source, **sizes))
    encoder = [rows(rng, heads, source, source) for _ in range(layers)]
    return Result(SOURCE_TOKENS, encoder, paths, steps(rng, source, heads))


def sentence(gold=GOLD):
    return Sentence("Er ruft den überglücklichen Freund an.", SOURCE, gold)


def page():
    """Two systems, the second with a latent alignment, on two sentences, of which the first has gold links."""
    systems = [system("first"), system("second", latent=True)]
    results = [[result(1), result(2, latent=True)], [result(3, given=False), result(4, latent=True, given=False)]]
    return Page(systems, [sentence(), sentence(gold=None)], results)


def large_page(tokens=100, layers=6, heads=8):
    rng = np.random.default_rng(0)
    words = [f"Wort{i}" for i in range(tokens - 1)]
    pieces = [f"▁{word}" for word in words] + ["</s>"]
    one = path(rng, "own", words, pieces, tokens, layers, heads)
    encoder = [rows(rng, heads, tokens, tokens) for _ in range(layers)]
    text = " ".join(words)
    return Page([system("large", layers, heads)], [Sentence(text, words)], [[Result(pieces, encoder, [one], [])]])
