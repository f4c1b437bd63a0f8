"""KerasHub's own translation task, tiny, with a vocabulary made here: what a translator is compared with."""

import keras_hub

MERGES = ["n o", "no o", "noo n", "s u", "su n", "Ġ sun"]
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *"noafterus", *(one.replace(" ", "") for one in MERGES)]
TEXTS = {"encoder_text": ["noon sun", " sun", "sun"], "decoder_text": [" sun", "noon", "sun sun"]}
LENGTH = 8


def bart():
    """A `BartSeq2SeqLM` that runs eagerly: it takes a second to build, and nothing compiles."""
    tokenizer = keras_hub.models.BartTokenizer({one: i for i, one in enumerate(dict.fromkeys(PIECES))}, MERGES)
    preprocessor = keras_hub.models.BartSeq2SeqLMPreprocessor(tokenizer, LENGTH, LENGTH)
    backbone = keras_hub.models.BartBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=1,
        hidden_dim=4,
        intermediate_dim=4,
        max_sequence_length=LENGTH,
    )
    task = keras_hub.models.BartSeq2SeqLM(backbone, preprocessor)
    task.compile(sampler="greedy", run_eagerly=True)
    return task
