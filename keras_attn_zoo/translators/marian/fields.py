"""Every field of a Marian checkpoint: read, known to change nothing, or refused by name."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn_zoo.presets.preset_reading import has_file
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

_LOG = logging.getLogger(__name__)
# What an unknown field may have without a warning.
_NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
# What JSON a field may have: null where Transformers takes it.
_NULL = type(None)
_FLAG, _INTEGER, _NUMBER, _TEXT = (bool,), (int,), (int, float), (str,)
_ID, _IDS, _TOKEN, _TOKENS = (int, _NULL), (int, list, _NULL), (str, dict, _NULL), (list, dict, _NULL)
_KINDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    _NULL: "null",
}


@dataclasses.dataclass(frozen=True)
class Fields:
    """What becomes of the fields of one file.

    Args:
        read: the fields whose values are read, and the types that they may have.
        harmless: names of fields that change neither ids nor logits nor translations, by the reason.
        refused: what a field must have, if it is there: anything else computes what our classes do not.
    """

    read: Mapping[str, tuple[type, ...]]
    harmless: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, tuple[Any, ...]]

    @property
    def known(self) -> set[str]:
        """The names of all fields."""
        return {*self.read, *self.refused, *(name for names in self.harmless.values() for name in names)}

    def check(self, file: str, fields: Mapping[str, Any], preset: str) -> list[str]:
        """Return which fields are unknown, and say something.

        Raises:
            UserError: names a field that is refused, or that has a value of another type.
        """
        for name, types in self.read.items():
            if name in fields and type(fields[name]) not in types:
                raise UserError(
                    f"{file} of {shown(preset)} says {name}={shown(repr(fields[name]))}, not "
                    f"{' or '.join(_KINDS[one] for one in types)}: correct it, or download it again."
                )
        for name, allowed in self.refused.items():
            value = fields.get(name)
            if value is not None and not any(_same(value, one) for one in allowed):
                instead = " or ".join(map(repr, allowed)) or "without it"
                raise UserError(
                    f"{file} of {shown(preset)} says {name}={shown(repr(value))}, which is not computed here: only "
                    f"models with {instead} can be opened. Change it in a copy to do without."
                )
        # Tokens of any name are read.
        known = self.known | {name for name in fields if self is TOKENIZER and name.endswith("_token")}
        said = {name for name, value in fields.items() if not any(_same(value, one) for one in _NOTHING)}
        return sorted(said - known)


def _same(value, other):
    """Whether two values of JSON are the same: 1 and 1.0 are one number, true is none."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


CONFIG = Fields(
    read={
        **dict.fromkeys(("model_type", "activation_function"), _TEXT),
        **dict.fromkeys(("vocab_size", "d_model", "max_position_embeddings"), _INTEGER),
        "decoder_vocab_size": (int, _NULL),
        **dict.fromkeys(("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"), _INTEGER),
        **dict.fromkeys(("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim"), _INTEGER),
        **dict.fromkeys(("num_hidden_layers", "hidden_size", "num_attention_heads"), _INTEGER),
        **dict.fromkeys(("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings"), _FLAG),
        **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), _NUMBER),
        "pad_token_id": _ID,
        "eos_token_id": _IDS,
        "decoder_start_token_id": _INTEGER,
    },
    harmless={
        "it names what wrote the file, or in which type": (
            *("architectures", "_name_or_path", "name_or_path", "transformers_version", "_commit_hash"),
            *("dtype", "torch_dtype", "tokenizer_class", "finetuning_task", "attn_implementation"),
            *("_attn_implementation_autoset", "_attn_implementation", "experts_implementation"),
        ),
        "only training by Transformers reads it": (
            *("encoder_layerdrop", "decoder_layerdrop", "init_std", "gradient_checkpointing"),
        ),
        "it says what a call returns, or saves time or memory": (
            *("output_hidden_states", "output_attentions", "return_dict", "use_cache", "chunk_size_feed_forward"),
            *("torchscript", "use_bfloat16", "output_past", "tf_legacy_loss"),
        ),
        "only classifiers read it": (
            *("id2label", "label2id", "num_labels", "_num_labels", "problem_type", "classif_dropout"),
            *("classifier_dropout",),
        ),
        "a translator of Transformers does not read it": (
            *("bos_token_id", "sep_token_id", "add_bias_logits", "extra_pos_embeddings", "task_specific_params"),
            *("cross_attention_hidden_size",),
        ),
        "only rotary positions read it": ("rope_parameters", "rope_scaling", "rope_theta"),
    },
    refused={
        **dict.fromkeys(("normalize_before", "normalize_embedding", "add_final_layer_norm"), (False,)),
        **dict.fromkeys(("is_decoder", "add_cross_attention", "tie_encoder_decoder"), (False,)),
        **dict.fromkeys(("static_position_embeddings", "is_encoder_decoder"), (True,)),
        **dict.fromkeys(("pruned_heads", "per_layer_config"), ({},)),
        **dict.fromkeys(("quantization_config", "auto_map"), ()),
        "prefix": ("",),
    },
)
GENERATION = Fields(
    read={
        **dict.fromkeys(("num_beams", "max_length", "max_new_tokens"), (int, _NULL)),
        **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram_size"), (int, _NULL)),
        "length_penalty": (int, float, _NULL),
        "early_stopping": (bool, str, _NULL),
        "renormalize_logits": (bool, _NULL),
        **dict.fromkeys(("bad_words_ids", "suppress_tokens"), (list, _NULL)),
        **dict.fromkeys(("forced_eos_token_id", "eos_token_id"), _IDS),
        **dict.fromkeys(("pad_token_id", "decoder_start_token_id", "bos_token_id"), _ID),
    },
    harmless={
        "only drawing reads it, which is refused": (
            *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
        ),
        "it says what a call returns": (
            *("num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "output_logits"),
            *("return_dict_in_generate",),
        ),
        "it saves time or memory": (
            *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "compile_config"),
            *("disable_compile", "low_memory", "continuous_batching_config"),
        ),
        "it is read beside a second model": (
            *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
            *("assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "max_matching_ngram_size"),
            *("speculation_type",),
        ),
        "weights are finite": ("remove_invalid_values",),
        "it names what wrote the file": ("transformers_version", "_from_model_config", "_commit_hash"),
    },
    refused={
        **dict.fromkeys(("do_sample", "force_bos_token_to_be_generated", "token_healing"), (False,)),
        **dict.fromkeys(("use_mtp", "is_assistant"), (False,)),
        **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), (1,)),
        **dict.fromkeys(("guidance_scale", "num_beam_groups"), (1,)),
        **dict.fromkeys(("encoder_no_repeat_ngram_size", "diversity_penalty", "penalty_alpha"), (0,)),
        **dict.fromkeys(("max_time", "stop_strings", "forced_bos_token_id", "exponential_decay_length_penalty"), ()),
        **dict.fromkeys(("sequence_bias", "watermarking_config", "constraints", "force_words_ids"), ()),
        **dict.fromkeys(("dola_layers", "prompt_lookup_num_tokens", "assistant_early_exit"), ()),
        "begin_suppress_tokens": ([],),
        # Transformers finds other translations with it.
        "prefill_chunk_size": (),
    },
)
TOKENIZER = Fields(
    read={
        "added_tokens_decoder": (dict,),
        **dict.fromkeys(("extra_special_tokens", "additional_special_tokens"), _TOKENS),
        **dict.fromkeys(("eos_token", "unk_token", "pad_token"), (str, dict)),
        **dict.fromkeys(("bos_token", "sep_token", "cls_token", "mask_token"), _TOKEN),
        "model_specific_special_tokens": (dict, _NULL),
        **dict.fromkeys(("clean_up_tokenization_spaces", "separate_vocabs"), (bool, _NULL)),
    },
    harmless={
        "it names languages or what wrote the file": (
            *("source_lang", "target_lang", "name_or_path", "processor_class", "slow_tokenizer_class"),
            *("backend", "is_local", "local_files_only", "files_loaded", "device_map", "verbose"),
        ),
        "sentences are cut only where that is asked for": ("model_max_length", "max_len", "truncation_side"),
        "it says which inputs there are": (
            *("model_input_names", "token_type_ids_pattern", "token_type_ids_include_special_tokens"),
        ),
        "a Marian tokenizer does not read it": (
            *("special_tokens_pattern", "add_bos_token", "add_eos_token", "do_lower_case"),
            *("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", "fast_tokenizer_files"),
        ),
        "chats alone have it": (*("chat_template", "chat_control_tokens", "response_template", "response_schema"),),
        "the files of the checkpoint are read": (
            *("source_spm", "target_spm", "vocab", "target_vocab_file", "tokenizer_file", "special_tokens_map_file"),
            *("added_tokens_file", "tokenizer_config_file"),
        ),
    },
    refused={
        "tokenizer_class": ("MarianTokenizer",),
        "sp_model_kwargs": ({},),
        "split_special_tokens": (False,),
        "padding_side": ("right",),
        "init_inputs": ([],),
        "auto_map": (),
    },
)
# An adapter's weights are added to those of the model: Transformers does that by itself.
REFUSED_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


def check_fields(preset: str, found: Sequence[tuple[str, Fields, Mapping[str, Any]]]) -> None:
    """Check all fields of a checkpoint; say in one message which are unknown.

    Args:
        preset: the checkpoint.
        found: the name of each file, what becomes of its fields, and the fields.

    Raises:
        UserError: names a field that is refused, or the file of an adapter.
    """
    for name in REFUSED_FILES:
        if has_file(preset, name):
            raise UserError(
                f"{shown(preset)} has {name}: the adapter changes the model's weights. Merge it into them, and open "
                "the result."
            )
    unknown = [f"{name} in {file}" for file, fields, values in found for name in fields.check(file, values, preset)]
    if unknown:
        _LOG.warning(
            "%s has fields that this version does not know and does not read: %s. If Transformers reads one, "
            "translations may differ from theirs.",
            shown(preset),
            ", ".join(map(shown, unknown)),
        )
