"""The systems that the command line knows by name."""

import dataclasses

from keras_attn_zoo.experiments.settings import DataSettings, SearchSettings, System, TrainingSettings

_BAHDANAU = {"readout": "maxout", "attention_query": "previous_state"}
_LUONG = {
    "readout": "tanh",
    "readout_embedding": False,
    "attention_query": "current_state",
    "input_feeding": True,
}
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


SYSTEMS = {
    system.name: system
    for system in (
        _system("bahdanau", "bahdanau", _BAHDANAU, "Hiemsch 4, Dang 2.3"),
        _system("bahdanau-feedback", "bahdanau_feedback", _BAHDANAU, "Bahar 11"),
        _system("luong-dot", "luong_dot", {**_LUONG, "bidirectional": False}, "Dang 2.4"),
        _system("luong-general", "luong_general", _LUONG, "Dang 2.4"),
        _system("luong-concat", "luong_concat", _LUONG, "Dang 2.4"),
        _system("uniform", "uniform", _BAHDANAU, "Hiemsch 4"),
    )
}


def small(system):
    """Return a system in the size of the demonstration: minutes on two CPU cores.

    Example:
        >>> small(SYSTEMS["uniform"]).backbone["hidden_dim"]
        128
    """
    return dataclasses.replace(
        system,
        backbone={**system.backbone, "embedding_dim": 64, "hidden_dim": 128, "dropout": 0.1},
        data=DataSettings(vocabulary_size=2000, max_tokens=64, sentences_per_batch=64, bucket_count=2),
        training=TrainingSettings(
            epochs=4, validations_per_epoch=1, learning_rate=3e-3, schedule="plateau", plateau_factor=0.5
        ),
        search=SearchSettings(beams=4, length_penalty=1.0, batch_size=64),
    )
