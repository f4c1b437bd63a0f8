"""Tokens that were added to the vocabulary of a Marian model, such as codes of languages: read, and found in text."""

import logging
from collections.abc import Iterator, Mapping

from keras_attn_zoo.data.marian_pieces import END, PAD, UNKNOWN, AddedToken
from keras_attn_zoo.presets.preset_reading import has_file, preset_json
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown
from keras_attn_zoo.support.types import Config

# The named tokens that a Marian model must have, and the order in which Transformers numbers those without a number.
NAMED = {"eos_token": END, "unk_token": UNKNOWN, "pad_token": PAD}
_ORDER = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_LOG = logging.getLogger(__name__)


def tokenizer_settings(preset: str) -> tuple[Config, Config]:
    """Return what stands in tokenizer_config.json and in special_tokens_map.json.

    The second is empty where Transformers does not read it: the first says all, in newer checkpoints.
    """
    settings = _object(preset, "tokenizer_config.json")
    return settings, {} if "added_tokens_decoder" in settings else _object(preset, "special_tokens_map.json")


def read_added_tokens(preset: str, vocabulary: Mapping[str, int]) -> dict[int, AddedToken]:
    """Return the tokens that were added to a tokenizer, by their numbers.

    Args:
        preset: the checkpoint.
        vocabulary: the numbers of its own pieces, those of the source if both sides have different ones.

    Raises:
        UserError: `</s>`, `<unk>` and `<pad>` have other names; a token is no text, or two have one number.
    """
    settings, special_map = tokenizer_settings(preset)
    special = _special_tokens(preset, settings, special_map)
    found = {content: (number, flags) for number, content, flags in _numbered(preset, settings)}
    contents: dict[int, str] = {}
    for content, (number, _) in found.items():
        if (other := contents.setdefault(number, content)) != content:
            raise UserError(
                f"the added tokens {shown(other)} and {shown(content)} of {shown(preset)} both have the number "
                f"{number}: download its tokenizer again."
            )
    for content in NAMED.values():
        if content in found and (number := found[content][0]) != vocabulary.get(content):
            raise _other_number(content, number, preset)
    count = len({*vocabulary, *found})
    for content in special:
        if content not in found:
            number = vocabulary.get(content, count)
            count += content not in vocabulary
            found[content] = number, {}
    skipped = set(special)
    return {
        number: AddedToken(content, content in skipped, **flags)
        for content, (number, flags) in found.items()
        if content not in NAMED.values()
    }


def add_to(
    pieces: list[str], tokens: Mapping[int, AddedToken], preset: str, own: Mapping[str, int], said: bool
) -> list[AddedToken]:
    """Put added tokens at their places in the pieces of a side.

    Args:
        pieces: the piece of every id, which is changed.
        tokens: the tokens by number.
        preset: what errors call the model.
        own: the numbers of the side's own pieces.
        said: whether the other side has warned already.

    Returns:
        those that the model has an embedding for.

    Raises:
        UserError: a piece has another number, or a number another piece.
    """
    known = []
    for number, token in sorted(tokens.items()):
        if number >= len(pieces):
            if not said:
                message = "%s has no embedding for its token %s, which is text like any other here."
                _LOG.warning(message, shown(preset), shown(token.content))
            continue
        if own.get(token.content, number) != number or (number in own.values() and token.content not in own):
            raise _other_number(token.content, number, preset)
        pieces[number] = token.content
        known.append(token)
    return known


def _special_tokens(preset: str, settings: Config, special_map: Config) -> list[str]:
    """The contents of all special tokens, in the order in which Transformers adds them."""
    merged = {**settings, **special_map}
    extra = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    if special_map:
        extra = special_map.get("extra_special_tokens") or special_map.get("additional_special_tokens") or extra
    for name, expected in NAMED.items():
        if merged.get(name) is not None and _content(merged[name], preset) != expected:
            raise UserError(
                f"the tokenizer of {shown(preset)} has {name}={shown(repr(merged[name]))}: only models with {expected} "
                "can be opened."
            )
    names = [*_ORDER, *(name for name in merged if name.endswith("_token") and name not in _ORDER)]
    values = [merged[name] for name in names if _is_token(merged.get(name))]
    for listed in (merged.get("model_specific_special_tokens") or {}, extra):
        if not isinstance(listed, (dict, list)):
            raise _damaged(preset)
        values += listed.values() if isinstance(listed, dict) else listed
    return list(dict.fromkeys([*(_content(value, preset) for value in values), *NAMED.values()]))


def _numbered(preset: str, settings: Config) -> Iterator[tuple[int, str, Config]]:
    """Yield the number, the content and the flags of every token that has a number."""
    if "added_tokens_decoder" in settings:
        decoder = settings["added_tokens_decoder"]
        if not isinstance(decoder, dict):
            raise _damaged(preset)
        entries = list(decoder.items())
    else:
        # Earlier versions wrote these; where both have a token, Transformers goes by the second.
        contents = _object(preset, "added_tokens.json")
        entries = [(number, {"content": content}) for content, number in contents.items()]
        listed = _object(preset, "tokenizer.json").get("added_tokens") or []
        if not isinstance(listed, list):
            raise _damaged(preset)
        entries += [(one.get("id") if isinstance(one, dict) else None, one) for one in listed]
    for number, token in entries:
        # Python reads at most 4,300 digits.
        is_text = isinstance(number, str) and number.isdecimal() and len(number) < 20
        number = int(number) if is_text else number
        if type(number) is not int or number < 0 or not isinstance(token, dict):
            raise _damaged(preset)
        flags = {name: token.get(name, False) for name in ("lstrip", "rstrip", "single_word")}
        if not all(isinstance(value, bool) for value in flags.values()):
            raise _damaged(preset)
        yield number, _content(token, preset), flags


def _is_token(value):
    return isinstance(value, str) or (isinstance(value, dict) and "content" in value)


def _content(token, preset):
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str) or not content:
        raise _damaged(preset)
    return content


def _object(preset: str, name: str) -> Config:
    value = preset_json(preset, name) if has_file(preset, name) else {}
    if not isinstance(value, dict):
        raise UserError(f"{name} of {shown(preset)} is no object of JSON: download it again.")
    return value


def _other_number(content, number, preset):
    return UserError(
        f"the added token {shown(content)} of {shown(preset)} has the number {number}, but vocab.json has another: it "
        "cannot be opened."
    )


def _damaged(preset):
    return UserError(
        f"the added tokens of {shown(preset)} are not texts with a number each: download its tokenizer again."
    )
