"""Downloads of presets from a hub: valid addresses, and errors if the network fails."""

import contextlib
import importlib.util
import threading
import urllib.parse
from collections.abc import Iterator

from keras_attn_zoo.errors import UserError

# The package that downloads from each kind of address.
PACKAGES = {"hf": "huggingface_hub", "kaggle": "kagglehub", "modelscope": "modelscope", "gs": "tensorflow"}
# Seconds within which a server must answer.
PATIENCE = 5.0
# The libraries' names for errors of the network; they have no class in common.
_OF_NETWORK = {
    "ConnectError",
    "ConnectTimeout",
    "AbortedError",
    "ConnectionError",
    "FailedPreconditionError",
    "LocalEntryNotFoundError",
    "OfflineModeIsEnabled",
    "ReadTimeout",
    "Timeout",
    "UnavailableError",
    "gaierror",
}
_HOSTS = {"kaggle": "www.kaggle.com", "modelscope": "www.modelscope.cn", "gs": "storage.googleapis.com"}


@contextlib.contextmanager
def downloading(preset: str) -> Iterator[None]:
    """Download a preset that is not in a folder; if its hub does not answer, use the cached copy.

    The libraries themselves would try for half a minute per file, and then report that the file does not exist.

    Args:
        preset: an address such as `hf://user/preset`; nothing is done for a folder.

    Raises:
        UserError: an invalid address, or one that needs another package; no such preset; the hub cannot be reached
            and the cache has no copy.

    Example:
        >>> with downloading("hf://user/preset"):  # doctest: +SKIP
        ...     get_file("hf://user/preset", "config.json")
    """
    scheme, separator, address = preset.partition("://")
    if not separator:
        yield
        return
    if scheme not in PACKAGES:
        known = ", ".join(f"{name}://" for name in PACKAGES)
        raise UserError(f"{preset} cannot be downloaded: give a folder, or an address that begins with {known}.")
    package = PACKAGES[scheme]
    if importlib.util.find_spec(package) is None:
        advice = "use that backend" if scheme == "gs" else f"pip install {package}"
        raise UserError(f"{preset} needs the package {package}, which is not installed: {advice}.")
    with _cache_where_nobody_answers(preset, address) if scheme == "hf" else contextlib.nullcontext():
        try:
            yield
        except Exception as error:
            names = {type(cause).__name__ for cause in _causes(error)}
            if names & _OF_NETWORK:
                raise UserError(_unreachable(preset, scheme)) from error
            if "RepositoryNotFoundError" in names or "GatedRepoError" in names:
                raise UserError(f"{preset} does not exist or is private: check the name, or log in.") from error
            raise


@contextlib.contextmanager
def _cache_where_nobody_answers(preset, address):
    from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(address)
    except HFValidationError:
        raise UserError(f"{preset} is not of the form hf://USER/PRESET: check the name.") from None
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _answers(hf_hub_url(address, "config.json"))
    try:
        if constants.HF_HUB_OFFLINE and not isinstance(try_to_load_from_cache(address, "config.json"), str):
            raise UserError(_unreachable(preset, "hf"))
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _answers(url):
    """Whether a server answers at all, even with an error."""
    from huggingface_hub.utils import get_session

    heard = []

    def ask():
        with contextlib.suppress(Exception):
            heard.append(get_session().head(url, timeout=PATIENCE))

    # In a thread, since resolving a name has no timeout.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(2 * PATIENCE)
    return bool(heard)


def _unreachable(preset, scheme):
    if scheme == "hf":
        from huggingface_hub import constants

        host = urllib.parse.urlsplit(constants.ENDPOINT).netloc
    else:
        host = _HOSTS[scheme]
    return f"cannot reach {host} for {preset}, and the cache has no copy: check the network."


def _causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
