"""The fields of a checkpoint's files that Transformers knows, by inspection of its classes."""

import dataclasses
import inspect
import re

from transformers import GenerationConfig, MarianConfig, MarianTokenizer
from transformers.configuration_utils import PreTrainedConfig
from transformers.tokenization_python import PythonBackend
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

# A field that is taken from the keyword arguments of a constructor, or from a file.
_TAKEN = re.compile(r"kwargs(?:\.(?:pop|get)\(|\[)\s*[\"'](\w+)[\"']|[\"'](\w+)[\"'] in \w*kwargs")


def fields_of_config():
    """Those of config.json, without what only searches read."""
    names = {field.name for field in dataclasses.fields(MarianConfig)} | set(MarianConfig().to_dict())
    names |= set(MarianConfig.attribute_map) | _taken(PreTrainedConfig.__post_init__)
    return names - fields_of_generation()


def fields_of_generation():
    """Those of generation_config.json."""
    own = {name for name in vars(GenerationConfig()) if name != "_original_object_hash"}
    return own | set(GenerationConfig._get_default_generation_params()) | _taken(GenerationConfig.__init__)


def fields_of_tokenizer():
    """Those of tokenizer_config.json and special_tokens_map.json."""
    names = set(PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES)
    for cls in (MarianTokenizer, PythonBackend, PreTrainedTokenizerBase):
        names |= set(inspect.signature(cls.__init__).parameters) | _taken(cls.__init__)
    return (names | _taken(PreTrainedTokenizerBase._from_pretrained)) - {"self", "kwargs"}


def _taken(function):
    return {one or other for one, other in _TAKEN.findall(inspect.getsource(function))}
