"""Subword tokenizer of one side of a translator."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import keras
import keras_hub
import sentencepiece

from keras_attn_zoo.bodies.rnn_backbone import RNNBackbone
from keras_attn_zoo.data.subwords import LARGEST_MODEL, Subwords
from keras_attn_zoo.data.truecasing import Truecaser
from keras_attn_zoo.presets.preset_checks import check_file_name
from keras_attn_zoo.presets.preset_reading import preset_file
from keras_attn_zoo.presets.saving import PresetFiles
from keras_attn_zoo.support.compat import WithoutTensorFlowOps
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, read_bytes, shown
from keras_attn_zoo.support.types import Config
from keras_attn_zoo.translators.texts import detokenize_in_graph, is_in_graph, strings, tokenize_in_graph

_MODEL, _TRUECASER = "vocabulary.spm", "truecaser.txt"


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class TranslationTokenizer(WithoutTensorFlowOps, PresetFiles, keras_hub.tokenizers.SentencePieceTokenizer):
    """A SentencePiece tokenizer with the four special tokens that a translator needs.

    Use one per side of a `TranslationPreprocessor`, or one for both.

    Args:
        proto: path or bytes of a SentencePiece model with the pieces `<pad>`,
            `<unk>`, `<s>` and `</s>`, as `keras_attn_zoo.data.subwords` trains them.
        truecaser: a `Truecaser`, or None.
        truecased: whether there is a truecaser in the preset, which is read with the other files.
        **kwargs: see `keras_hub.tokenizers.SentencePieceTokenizer`; `config_file`
            tells the two sides of a preset apart.

    Example:
        >>> TranslationTokenizer("source.spm").tokenize(["Guten Tag"])
    """

    backbone_cls: Any = RNNBackbone
    # The piece that begins every translation.
    start_piece = "<s>"

    def __init__(
        self,
        proto: str | bytes | None = None,
        truecaser: Truecaser | None = None,
        truecased: bool = False,
        **kwargs: Any,
    ) -> None:
        self.truecaser = truecaser
        self.truecased = truecased or truecaser is not None
        self.start_token, self.end_token, self.pad_token = self.special_tokens
        super().__init__(proto=proto, **kwargs)
        check_file_name(self.config_file, "a tokenizer")
        if self.truecased:
            self.file_assets: list[str] = [*self.file_assets, _TRUECASER]

    @property
    def special_tokens(self) -> list[str]:
        """The pieces that begin, end and fill up a sentence."""
        return [self.start_piece, "</s>", "<pad>"]

    @property
    def special_token_ids(self) -> list[int]:
        """Their ids; a `ValueError` as long as there is no model."""
        if self.start_token_id is None:
            raise ValueError("The tokenizer has no model, and so no ids of special tokens: call `set_proto`.")
        return [self.start_token_id, self.end_token_id, self.pad_token_id]

    def set_proto(self, proto: str | bytes | None) -> None:
        """Set the SentencePiece model, a path or bytes.

        Raises:
            UserError: it is damaged, or no such model.
        """
        self._set_proto(proto, shown(proto) if isinstance(proto, str) else "the subword model")

    def _set_proto(self, proto, name):
        """Set the model, which error messages call by a name."""
        damaged = UserError(
            f"{name} is not a SentencePiece model with {self.start_piece}, </s> and <pad>, or is damaged: restore "
            "it, or download it again."
        )
        # SentencePiece takes no bytes for a model without pieces, and complains on the terminal.
        if proto == b"":
            raise damaged
        # Otherwise loading reports on the terminal that the text is normalised elsewhere.
        sentencepiece.set_min_log_level(2)
        try:
            super().set_proto(proto)
        except Exception as error:
            # SentencePiece raises RuntimeError, TensorFlow, which KerasHub prefers, classes of its own.
            if not isinstance(error, RuntimeError) and not type(error).__module__.startswith("tensorflow"):
                raise
            raise damaged from error
        ids = [None if proto is None else self.token_to_id(token) for token in self.special_tokens]
        if proto is not None and [self.id_to_token(id_) for id_ in ids] != self.special_tokens:
            raise damaged
        self.start_token_id, self.end_token_id, self.pad_token_id = ids
        # None as long as there is no model.
        self.subwords: Any = None if proto is None else self._read_model()

    def _read_model(self) -> Subwords:
        """Return what encodes and decodes text by `self.proto`."""
        return Subwords(self.proto, self.truecaser)

    def tokenize(self, inputs: str | Sequence[str]) -> list[int] | list[list[int]]:
        """Turn a sentence into its ids, or a list of sentences into a list of them, as training text is.

        Arrays and TensorFlow's tensors of strings are taken too. In `tf.data.Dataset.map`, ids are a tensor for a
        sentence, a ragged one for several.
        """
        if is_in_graph(inputs):
            return tokenize_in_graph(self.subwords.encode, inputs)
        inputs = strings(inputs)
        return self.subwords.encode([inputs])[0] if isinstance(inputs, str) else self.subwords.encode(inputs)

    def detokenize(self, inputs: Sequence[int] | Sequence[Sequence[int]]) -> str | list[str]:
        """Turn the ids of a sentence into text, or those of several into a list; special tokens are left out.

        Arrays and tensors are taken too. In `tf.data.Dataset.map`, text is a tensor.
        """
        if is_in_graph(inputs):
            return detokenize_in_graph(self.detokenize, inputs)
        if hasattr(inputs, "row_lengths"):
            inputs = cast("Any", inputs).to_list()
        elif not isinstance(inputs, (list, tuple)):
            inputs = keras.ops.convert_to_numpy(inputs)
        if len(inputs) and hasattr(inputs[0], "__len__"):
            return [self.subwords.decode(ids) for ids in inputs]
        return self.subwords.decode(inputs)

    def save_assets(self, dir_path: PathLike) -> None:
        """Write the model, and the truecaser if there is one, into a folder."""
        super().save_assets(dir_path)
        if self.truecaser is not None:
            (Path(dir_path) / _TRUECASER).write_bytes(self.truecaser.model_bytes)

    def load_assets(self, dir_path: PathLike) -> None:
        """Read the model, and the truecaser if there is one, from a folder."""
        if self.truecased:
            self.truecaser = Truecaser(Path(dir_path) / _TRUECASER)
        path = Path(dir_path) / _MODEL
        self._set_proto(read_bytes(path, LARGEST_MODEL), shown(path))

    def load_preset_assets(self, preset: str) -> None:
        """Read the files of the tokenizer from a preset, after checking where they are."""
        for name in self.file_assets:
            preset_file(preset, f"assets/{Path(self.config_file).stem}/{name}")
        super().load_preset_assets(preset)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        # Without a truecaser, earlier versions can read the preset.
        return {**super().get_config(), **({"truecased": True} if self.truecased else {})}
