"""The named systems of the command line."""

import dataclasses
from typing import Any

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System

_BAHDANAU = {"readout": "maxout", "attention_query": "previous_state"}
_LUONG = {"readout": "tanh", "readout_embedding": False, "attention_query": "current_state", "input_feeding": True}
# Posterior attention: a lexicon that sees the decoder's state alone, and cells that see the posterior.
_POSTERIOR = {"output": "latent", "readout": "state", "attention_query": "current_state", "posterior_feeding": True}
_TRAINING = TrainingSettings(
    epochs=12, validations_per_epoch=2, schedule="plateau", plateau_factor=0.5, plateau_patience=1, patience=6
)


def _system(name, attention, backbone, source):
    return System(
        name,
        {"embedding_dim": 256, "hidden_dim": 512, "dropout": 0.3, "cross_attention": attention, **backbone},
        training=_TRAINING,
        source=source,
    )


# The base Transformer of Vaswani et al., on which four papers build.
_TRANSFORMER = {"width": 512, "num_heads": 8, "ffn_dim": 2048, "encoder_layers": 6, "decoder_layers": 6}
RAN = {"attention": "recurrent", "dropout": 0.2}


def transformer(
    name: str,
    source: str,
    dropout: float = 0.1,
    data: DataSettings | None = None,
    training: TrainingSettings | None = None,
    search: SearchSettings | None = None,
    **backbone: Any,
) -> System:
    """Return a Transformer system of the base model's size; `backbone` sets the attention in each place."""
    return System(
        name,
        {**_TRANSFORMER, "tie_embeddings": "all", "dropout": dropout, **backbone},
        data=data or DataSettings(joint=True, sentences_per_batch=None, tokens_per_batch=4096),
        training=training
        or TrainingSettings(
            epochs=30,
            validations_per_epoch=1,
            learning_rate=7e-4,
            schedule="inverse_sqrt",
            warmup_steps=4000,
            label_smoothing=0.1,
            patience=8,
        ),
        search=search or SearchSettings(beams=4, length_penalty=0.6),
        source=source,
        body="transformer",
    )


# Bahar: a latent alignment, and the sum over the six most likely positions instead of all.
LATENT: dict[str, Any] = {"output": "latent"}
TOP_6 = {"marginalization": "top_k", "top_k": 6}

# What takes the place of its sum: the maximum; one sampled position, trained by REINFORCE; a hidden Markov model.
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "max": ({"marginalization": "max"}, "Alkhouli 2018"),
    "hard": ({"marginalization": "hard"}, "Deng 2018"),
    "hmm": ({"max_jump": 10}, "Wang 2018"),
}

# What has become usual since: every group of four heads shares its keys and values. Of its networks' three matrices,
# each is two thirds as wide as with two, rounded up to a multiple of 128.
_GROUPED = {"attention": "multi_head", "num_key_value_heads": 2}
TRANSFORMER_2026 = {
    **{f"{place}_attention": _GROUPED for place in ("encoder", "decoder", "cross")},
    **{f"{side}_positions": "rotary" for side in ("encoder", "decoder")},
    "normalization": "pre",
    "norm": "rms",
    "activation": "swiglu",
    "ffn_dim": 1408,
}

# The attention in each place of the papers' Transformers, as arguments of `TransformerBackbone`.
TRANSFORMER_ATTENTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "transformer": ({}, "Zeng §2.1, Dang §2.7, Rosendahl §3.1"),
    "transformer-average": ({"decoder_attention": "average_without_ffn"}, "Dang §2.9"),
    "gaussian": ({"encoder_attention": "gaussian", "decoder_attention": "gaussian"}, "Zeng §3.1 (HC-SA)"),
    "synthesizer": (
        {"encoder_attention": "random_synthesizer", "decoder_attention": "random_synthesizer"},
        "Zeng §3 (Syn-R)",
    ),
    "ran-e": ({"encoder_attention": RAN}, "Zeng §2.2"),
    "ran-d": ({"decoder_attention": RAN}, "Zeng §2.2"),
    "ran-all": ({"encoder_attention": RAN, "decoder_attention": RAN}, "Zeng §2.2"),
    "previous-context": ({"cross_attention": "previous_context"}, "Rosendahl 2"),
    "previous-weight": ({"cross_attention": "previous_weight"}, "Rosendahl 3"),
    "accumulated-weight": ({"cross_attention": "accumulated_weight"}, "Rosendahl 4"),
    "expanded-key-value-1": ({"cross_attention": "expanded_key_value_1"}, "Rosendahl 5"),
    "expanded-key-value-2": ({"cross_attention": "expanded_key_value_2"}, "Rosendahl 6"),
    "expanded-key-value-3": ({"cross_attention": "expanded_key_value_3"}, "Rosendahl 7"),
    "expanded-key-value-4": ({"cross_attention": "expanded_key_value_4"}, "Rosendahl 8"),
    "energy-accumulation": ({"cross_attention": "energy_accumulation"}, "Rosendahl 9"),
    "weight-subtraction": ({"cross_attention": "weight_subtraction"}, "Rosendahl 10"),
    "transformer-2026": (TRANSFORMER_2026, "Shazeer 2020 (SwiGLU), Ainslie 2023, Su 2021, Zhang 2019"),
    "transformer-latent": (LATENT, "Bahar 5, 8, 10"),
    "transformer-latent-top-6": ({**LATENT, **TOP_6}, "Bahar 6, 8, 10"),
    "transformer-latent-one-head": ({**LATENT, "attention_layer": "-1:0"}, "Bahar §7.1"),
    **{f"transformer-latent-{name}": ({**LATENT, **form}, source) for name, (form, source) in FORMS.items()},
}
# Bahar's recurrent systems: six bidirectional layers, attention with feedback.
RNN_6_LAYERS = {
    "embedding_dim": 512,
    "hidden_dim": 1024,
    "cell": "lstm",
    "encoder_layers": 6,
    "cross_attention": "bahdanau_feedback",
    "dropout": 0.3,
}
LATENT_RNN: dict[str, Any] = {**LATENT, "readout": "state"}

SYSTEMS = {
    system.name: system
    for system in (
        *(transformer(name, source, **places) for name, (places, source) in TRANSFORMER_ATTENTIONS.items()),
        _system("bahdanau", "bahdanau", _BAHDANAU, "Hiemsch §4, Dang §2.3"),
        _system("bahdanau-feedback", "bahdanau_feedback", _BAHDANAU, "Bahar §6"),
        _system("luong-dot", "luong_dot", {**_LUONG, "bidirectional": False}, "Dang §2.4"),
        _system("luong-general", "luong_general", _LUONG, "Dang §2.4"),
        _system("luong-concat", "luong_concat", _LUONG, "Dang §2.4"),
        _system("local-m", "local_m", _LUONG, "Luong §3.2"),
        _system("local-p", "local_p", _LUONG, "Luong §3.2"),
        _system("coverage", "coverage", _BAHDANAU, "Tu §3.2"),
        *(
            System(
                name,
                {**RNN_6_LAYERS, **output},
                training=dataclasses.replace(_TRAINING, plateau_factor=0.9, pretraining_rounds=1),
                search=SearchSettings(beams=12),
                source=source,
            )
            for name, output, source in (
                ("rnn-attention", {"readout": "maxout"}, "Bahar §6, 11, 13"),
                ("rnn-latent", LATENT_RNN, "Bahar 5, 11, 12"),
                ("rnn-latent-top-6", {**LATENT_RNN, **TOP_6}, "Bahar 6, 11, 12"),
                *((f"rnn-latent-{name}", {**LATENT_RNN, **form}, source) for name, (form, source) in FORMS.items()),
            )
        ),
        _system("rnn-posterior", "luong_general", _POSTERIOR, "Shankar 2019"),
        _system("uniform", "uniform", _BAHDANAU, "Hiemsch §4"),
    )
}


_SMALL_TRAINING = {
    "rnn": TrainingSettings(
        epochs=4, validations_per_epoch=1, learning_rate=3e-3, schedule="plateau", plateau_factor=0.5
    ),
    "transformer": TrainingSettings(
        epochs=8, validations_per_epoch=1, learning_rate=3e-3, schedule="inverse_sqrt", warmup_steps=200
    ),
}


def small(system: System) -> System:
    """Return a system at the demonstration's size: minutes on two CPU cores; all layers train from the start.

    Example:
        >>> small(SYSTEMS["uniform"]).backbone["hidden_dim"]
        128
    """
    return dataclasses.replace(
        system,
        backbone={**system.backbone, **BODIES[system.body].small},
        data=DataSettings(
            vocabulary_size=2000, joint=system.data.joint, max_tokens=64, sentences_per_batch=64, bucket_count=2
        ),
        training=_SMALL_TRAINING[system.body],
        search=SearchSettings(beams=4, length_penalty=system.search.length_penalty, batch_size=64),
    )
