"""What `--verify` of presets and of corpora share: check one after the other, and report each in a line."""

from collections.abc import Callable, Iterable

from keras_attn_zoo.support.errors import UserError


def verify_each(what: str, checks: Iterable[tuple[str, Callable[[], str]]]) -> None:
    """Print a line for each check: what it returns, or the error that it raises.

    Args:
        what: what is checked, in the plural.
        checks: names, and functions that return what was found, or raise a `UserError`.

    Raises:
        UserError: any check failed; all were made.
    """
    wrong = 0
    for name, check in checks:
        try:
            print(f"{name}: {check()}")
        except UserError as error:
            wrong += 1
            print(f"{name}: {error}")
    if wrong:
        raise UserError(f"{wrong} of the {what} could not be verified: see above.")
