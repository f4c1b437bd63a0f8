"""Long text is cut, where that is better than leaving it out: articles to summarise, the turns of a dialogue."""

import dataclasses
from typing import TYPE_CHECKING

from keras_attn_zoo.support.errors import UserError

if TYPE_CHECKING:
    from keras_attn_zoo.data.encoded_text import EncodedText

KEPT = ("start", "end")


@dataclasses.dataclass(frozen=True)
class Truncation:
    """How many tokens long sources and targets are cut to.

    Args:
        source, target: maximum tokens of each side, start and end tokens included; None cuts nothing.
        keep: the part of a source that stays: "start", or "end" for a dialogue, whose last turn is answered. Of a
            target, the start stays.

    Raises:
        UserError: fewer than three tokens, which leave no room for text; another `keep`.

    Example:
        >>> Truncation(source=5).source_ids([10, 11, 12, 13])
        [10, 11, 12]
        >>> Truncation(source=5, keep="end").source_ids([10, 11, 12, 13])
        [11, 12, 13]
    """

    source: int | None = None
    target: int | None = None
    keep: str = "start"

    def __post_init__(self) -> None:
        """Check the lengths."""
        for name in ("source", "target"):
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 3):
                raise UserError(f"truncation cuts the {name} to an integer of at least 3 tokens; received {limit!r}.")
        if self.keep not in KEPT:
            raise UserError(f"truncation keeps one of {', '.join(KEPT)}; received {self.keep!r}.")

    def source_ids(self, ids: list[int]) -> list[int]:
        """Cut the ids of a source, given without start and end tokens."""
        if self.source is None or len(ids) <= self.source - 2:
            return ids
        return ids[: self.source - 2] if self.keep == "start" else ids[2 - self.source :]

    def target_ids(self, ids: list[int]) -> list[int]:
        """Cut the ids of a target, given without start and end tokens."""
        return ids if self.target is None else ids[: self.target - 2]

    def cut(self, text: "EncodedText") -> "EncodedText":
        """Cut encoded text, whose sentences end with the end token and still do."""
        text = self.cut_sources(text)
        if self.target is None or text.targets is None:
            return text
        return dataclasses.replace(text, targets=[[*self.target_ids(ids[:-1]), *ids[-1:]] for ids in text.targets])

    def cut_sources(self, text: "EncodedText") -> "EncodedText":
        """Cut the sources of encoded text alone."""
        if self.source is None:
            return text
        return dataclasses.replace(text, sources=[[*self.source_ids(ids[:-1]), *ids[-1:]] for ids in text.sources])


# Leaves everything as it is.
UNCUT = Truncation()
