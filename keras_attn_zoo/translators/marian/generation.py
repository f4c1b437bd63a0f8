"""How Transformers searches with a checkpoint, by its generation_config.json, as a search of ours."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn_zoo.data.marian_pieces import END, PAD
from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.presets.preset_reading import has_file, preset_json
from keras_attn_zoo.support.choices import HIGHEST_PENALTY, MOST_BEAMS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown
from keras_attn_zoo.support.types import Config
from keras_attn_zoo.translators.marian.fields import GENERATION

FILE = "generation_config.json"
SPECIAL = {"eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": PAD}


class Generation:
    """What a checkpoint says of its search: in generation_config.json or, if there is none, in config.json.

    Args:
        preset: the checkpoint.
        config: its config.json.

    Raises:
        UserError: generation_config.json is damaged, or begins translations with another token than `<pad>`.
    """

    def __init__(self, preset: str, config: Config) -> None:
        self.preset = preset
        self.file = FILE if has_file(preset, FILE) else "config.json"
        of_config = {name: config[name] for name in GENERATION.known & config.keys()}
        found = preset_json(preset, FILE) if self.file == FILE else of_config
        if not isinstance(found, dict):
            raise UserError(f"{FILE} of {shown(preset)} is no object of JSON: download it again.")
        self.fields: Config = {name: value for name, value in found.items() if value is not None}
        self._config = config
        self._files = {"config.json": config, self.file: self.fields}
        first = self.fields.get("bos_token_id")
        # Without a start in this file, Transformers begins with this token, whatever config.json says.
        begins_so = self.file == FILE and "decoder_start_token_id" not in self.fields and first is not None
        if begins_so and first != config.get("decoder_start_token_id"):
            raise self._error(f"bos_token_id={shown(repr(first))} and no decoder_start_token_id")

    def check_special(self, ids: Mapping[str, int], vocabulary: str, names: Sequence[str] = tuple(SPECIAL)) -> None:
        """Raise a `UserError` unless the special tokens of some fields are those of a vocabulary, in both files.

        Args:
            ids: the id of every piece.
            vocabulary: its name in the message.
            names: the fields.
        """
        for name in names:
            piece = SPECIAL[name]
            said = {file: fields[name] for file, fields in self._files.items() if fields.get(name) is not None}
            for file, value in (said or {"config.json": None}).items():
                if _one(value) != ids[piece]:
                    raise self._error(f"{name}={value!r}, but {piece} is number {ids[piece]} of {vocabulary}", file)

    def special(self, name: str) -> int:
        """Return the id of a special token, such as "eos_token_id"; raise a `UserError` if neither file says it."""
        value = _one(self.fields.get(name, self._config.get(name)))
        if type(value) is not int or value < 0:
            raise self._error(f"{name}={shown(repr(value))}, which is no id")
        return value

    def sampler(self, longest: int) -> BeamSearch:
        """Return the search that finds what Transformers finds; raise a `UserError` at a value that is none.

        Args:
            longest: the maximum tokens of a translation, with the start.
        """
        end = self.special("eos_token_id")
        beams = self._number("num_beams", 1, (int,), 1, MOST_BEAMS)
        penalty = float(self._number("length_penalty", 1.0, (int, float), 0, HIGHEST_PENALTY))
        stopping = self.fields.get("early_stopping", False)
        if not isinstance(stopping, bool) and stopping != "never":
            raise self._error(f"early_stopping={stopping!r}, not true, false or 'never'")
        forced = _one(self.fields.get("forced_eos_token_id"))
        if forced is not None and forced != end:
            raise self._error(f"forced_eos_token_id={shown(repr(forced))}, but {END} is number {end}")
        # It counts the start token, which the other does not.
        least = max(self._number("min_length", 0, (int,), 0) - 1, 0)
        least = self._number("min_new_tokens", least, (int,), 0)
        if forced is not None:
            # The end is at the last position whatever the minimum.
            least = min(least, longest - 2)
        further: Any = {"min_length": least, "no_repeat_ngram": self._number("no_repeat_ngram_size", 0, (int,), 0)}
        if beams == 1 and forced is None:
            return BeamSearch(1, penalty, **further)
        renormalize = self.fields.get("renormalize_logits") is True
        return PooledBeamSearch(beams, penalty, stopping, forced, renormalize, **further)

    def suppressed_tokens(self, size: int) -> list[int]:
        """Return the ids that a search never chooses, out of `size`; Transformers ignores a bad word that is the end.

        Raises:
            UserError: a bad word of several tokens; something other than ids.
        """
        end, words = self.special("eos_token_id"), self.fields.get("bad_words_ids", [])
        if not isinstance(words, list) or any(not isinstance(word, list) or len(word) != 1 for word in words):
            raise self._error(f"bad_words_ids={shown(repr(words))}, of which only those of a single token are computed")
        tokens = self.fields.get("suppress_tokens", [])
        ids = [one for [one] in words if one != end] + (tokens if isinstance(tokens, list) else [tokens])
        if any(type(one) is not int or not 0 <= one < size for one in ids) or end in ids:
            raise self._error("bad_words_ids or suppress_tokens that are no ids of pieces other than the end")
        return sorted(set(ids))

    def longest(self, positions: int) -> int:
        """Return the maximum tokens of a translation, with the start: as many as the model has positions, at most.

        Where a checkpoint says nothing, Transformers stops after 20 tokens, which is nobody's choice.
        """
        length = self._number("max_length", positions, (int,), 2)
        if "max_new_tokens" in self.fields:
            length = 1 + self._number("max_new_tokens", 0, (int,), 1)
        return min(length, positions)

    def _number(self, name: str, default: Any, types: tuple[type, ...], least: int, most: float = float("inf")) -> Any:
        value = self.fields.get(name, default)
        if type(value) not in types or not least <= value <= most:
            bounds = f"at least {least}" if most == float("inf") else f"from {least} to {most}"
            raise self._error(f"{name}={shown(repr(value))}, not a number {bounds}")
        return value

    def _error(self, what, file=None):
        return UserError(f"{file or self.file} of {shown(self.preset)} says {what}: correct it, or download it again.")


def _one(value):
    """The only element of a list, or what is no list. JSON's true is no id."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return None if isinstance(value, bool) else value
