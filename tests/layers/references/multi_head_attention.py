import functools

from tests.layers.equations import HEADED, dot_product

ROTARY, ALIBI = (functools.partial(dot_product, positions=name) for name in ("rotary", "alibi"))
# Between them these have every argument, and groups of one head, of two and of all.
VARIANTS = {
    "rotary": {
        "attend": ROTARY,
        "width": 8,
        "arguments": {"positions": "rotary", "query_key_norm": True, "num_key_value_heads": 1},
        "without_gradient": (),
        "places": ("decoder", "cross"),
    },
    "shaw": {
        "arguments": {"positions": "shaw", "num_key_value_heads": 1},
        "normalizer": "softmax1",
        "without_gradient": (),
        "places": ("decoder",),
    },
    "t5": {
        "width": 8,
        "num_heads": 4,
        "arguments": {"positions": "t5", "num_key_value_heads": 2},
        "normalizer": "sigmoid",
        "without_gradient": (),
        "places": ("decoder",),
    },
    "alibi": {"attend": ALIBI, "arguments": {"positions": "alibi"}, "places": ("cross",)},
}
REFERENCES = {
    "multi_head": HEADED(
        dot_product, without_gradient=("key/bias",), variants=VARIANTS, playground={"positions": ("alibi",)}
    ),
    "multi_query": HEADED(dot_product, without_gradient=("key/bias",)),
    "grouped_query": HEADED(dot_product, width=8, num_heads=4, without_gradient=("key/bias",)),
}
