import functools

from tests.layers.equations import Reference
from tests.layers.references.monotonic_attention import EXPECTED, PICTURE, monotonic

REFERENCES = {
    "monotonic_chunkwise": Reference(
        functools.partial(monotonic, chunk_size=2),
        share=True,
        arguments={**EXPECTED, "chunk_size": 2},
        picture=({"chunk_size": 2}, PICTURE),
    )
}
