"""Multi-BLEU, the score of Moses' script multi-bleu.perl, as a metric of sacrebleu."""

import importlib.metadata

from keras_attn_zoo.support.extras import require

require("sacrebleu", user=__name__)

from sacrebleu.metrics import BLEU

_PACKAGE = "sacremoses"
# Whose abbreviations are used for languages of which Moses has none.
_FALLBACK = "en"


def require_moses() -> None:
    """Raise a `MissingPackageError` if Moses' tokenizer is not installed."""
    require(_PACKAGE, user="Multi-BLEU, of text split by Moses' tokenizer,")


class MultiBLEU(BLEU):
    """BLEU as multi-bleu.perl computes it of text that Moses' tokenizer has split, without smoothing.

    Hyphenated words stay whole, and so do the abbreviations that Moses knows in the language; for a language of which
    it knows none, those of English are used, and the signature says so. Case is ignored, if it is, once words are
    split.

    Args:
        language: code of the language, such as "de".
        lowercase: whether to ignore case.

    Raises:
        MissingPackageError: sacremoses, the tokenizer, is not installed.

    Example:
        >>> MultiBLEU("en").corpus_score(["It is Mr. Hill."], [["It is Mr. Hill !"]]).precisions[0]
        80.0
    """

    def __init__(self, language: str, lowercase: bool = False) -> None:
        require_moses()
        from sacremoses import MosesTokenizer
        from sacremoses.corpus import NonbreakingPrefixes

        super().__init__(lowercase=lowercase, force=True, tokenize="none", smooth_method="none")
        self._split = MosesTokenizer(language).tokenize
        known = language in NonbreakingPrefixes().available_langs
        version = importlib.metadata.version(_PACKAGE)
        own = f"moses-{language}{'' if known else f'-with-abbreviations-{_FALLBACK}'}"
        self.tokenizer_signature = f"{own}-{_PACKAGE}-{version}"

    def _preprocess_segment(self, sent: str) -> str:
        words = str(self._split(sent, escape=False, return_str=True))
        return words.lower() if self.lowercase else words
