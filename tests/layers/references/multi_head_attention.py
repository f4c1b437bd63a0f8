from tests.layers.equations import HEADED, dot_product

REFERENCES = {"multi_head": HEADED(dot_product, without_gradient=("key/bias",))}
