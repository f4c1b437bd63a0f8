"""The error for bad input: one line that says what came and what to do."""


class UserError(ValueError):
    """Bad input of a user: a file, a name, an option.

    The message is one line: what was received, and what to do about it. The
    command line prints it without a traceback and exits with status 2.

    Example:
        >>> raise UserError("corpus.de has 3 lines, corpus.en has 4: give files of equal length.")
        Traceback (most recent call last):
        ...
        keras_attn_zoo.errors.UserError: corpus.de has 3 lines, corpus.en has 4: give files of equal length.
    """
