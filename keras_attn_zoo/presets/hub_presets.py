"""Presets of a hub, downloaded and uploaded: valid addresses, and errors if the network fails."""

import contextlib
import importlib.util
import re
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, shown

# The package that downloads from each kind of address.
PACKAGES = {"hf": "huggingface_hub", "kaggle": "kagglehub", "modelscope": "modelscope", "gs": "tensorflow"}
# Seconds within which a server must answer.
PATIENCE = 5.0
# On a hub, the card of a model.
_CARD = "README.md"
# The libraries' names for errors of the network; they have no class in common.
_OF_NETWORK = {
    *("ConnectError", "ConnectTimeout", "AbortedError", "ConnectionError", "FailedPreconditionError", "gaierror"),
    *("LocalEntryNotFoundError", "OfflineModeIsEnabled", "ReadTimeout", "Timeout", "UnavailableError"),
}
# Those for want of an account.
_OF_LOGIN = {"LocalTokenNotFoundError", "RepositoryNotFoundError", "UnauthenticatedError"}
_LOGIN = {"hf": "hf auth login", "kaggle": "python -c 'import kagglehub; kagglehub.login()'"}
# What the libraries demand of an address.
_KAGGLE = re.compile(r"[^/\s]+/[^/\s]+/[^/\s]+/[^/\s]+(/[0-9]+)?")
_HOSTS = {"kaggle": "www.kaggle.com", "modelscope": "www.modelscope.cn", "gs": "storage.googleapis.com"}


@contextlib.contextmanager
def downloading(preset: str) -> Iterator[str]:
    """Yield what to load a preset from: what was given, or the cached copy if its hub does not answer.

    The libraries themselves would try for half a minute per file, and then report that the file does not exist.

    Args:
        preset: an address such as `hf://user/preset`; nothing is done for a folder.

    Raises:
        UserError: an invalid address, or one that needs another package; no such preset; the hub cannot be reached
            and the cache has no copy.

    Example:
        >>> with downloading("hf://user/preset") as preset:  # doctest: +SKIP
        ...     get_file(preset, "config.json")
    """
    scheme, separator, address = preset.partition("://")
    if not separator:
        yield preset
        return
    if scheme not in PACKAGES:
        known = ", ".join(f"{name}://" for name in PACKAGES)
        raise UserError(f"{shown(preset)} cannot be downloaded: give a folder, or an address that begins with {known}.")
    if scheme == "kaggle" and not _KAGGLE.fullmatch(address):
        raise UserError(
            f"{shown(preset)} is not of the form kaggle://USER/MODEL/FRAMEWORK/VARIATION or "
            "kaggle://USER/MODEL/FRAMEWORK/VARIATION/VERSION: check the name."
        )
    _check_package(preset, scheme)
    try:
        yield _cached_if_nobody_answers(preset, address) if scheme == "hf" else preset
    except Exception as error:
        names = _kinds(error)
        if names & _OF_NETWORK:
            raise UserError(_unreachable(preset, scheme)) from error
        if "RepositoryNotFoundError" in names or "GatedRepoError" in names:
            raise UserError(f"{shown(preset)} does not exist or is private: check the name, or log in.") from error
        raise


def upload(preset: Path, address: str) -> None:
    """Upload a preset by KerasHub's `upload_preset`; its README.md becomes the card of the model.

    Args:
        preset: its folder.
        address: where to, as `hf://USER/PRESET` or `kaggle://USER/MODEL/FRAMEWORK/VARIATION`.

    Raises:
        UserError: the package of the hub is missing; the hub cannot be reached, or refuses.
    """
    import keras_hub

    scheme, _, name = address.partition("://")
    _check_package(address, scheme)
    try:
        if scheme == "hf":
            _upload_card(preset, name)
        keras_hub.upload_preset(address, str(preset))
    except UserError:
        raise
    except Exception as error:
        if _kinds(error) & _OF_NETWORK:
            raise UserError(f"cannot reach {_host(scheme)} to upload {shown(preset)}: check the network.") from error
        if _kinds(error) & _OF_LOGIN or _statuses(error) & {401, 403}:
            raise UserError(
                f"cannot upload {shown(preset)} to {address}: log in ({_LOGIN[scheme]}) with an account that may write "
                "there."
            ) from error
        # What Hugging Face's server said; otherwise the error.
        reason = getattr(error, "server_message", None) or str(error) or type(error).__name__
        raise UserError(f"cannot upload {shown(preset)} to {address}: {' '.join(reason.split())[:200]}") from error


def _upload_card(preset, name):
    """Upload README.md first: for a model without a card on the hub, KerasHub writes one into the preset itself.

    It removes that card afterwards, a user's own too, and leaves it there if it is stopped.
    """
    import huggingface_hub
    from huggingface_hub import constants

    if not _answers(constants.ENDPOINT):
        raise UserError(f"cannot reach {_host('hf')} to upload {shown(preset)}: check the network.")
    huggingface_hub.create_repo(name, exist_ok=True)
    card = preset / _CARD
    if card.is_file():
        huggingface_hub.upload_file(path_or_fileobj=card, path_in_repo=_CARD, repo_id=name)
    elif not huggingface_hub.file_exists(repo_id=name, filename=_CARD):
        content = _plain_card(preset, name)
        huggingface_hub.upload_file(path_or_fileobj=content, path_in_repo=_CARD, repo_id=name)


def _plain_card(preset, name):
    """A card that says what the preset is and how to load it, as bytes."""
    settings = read_json(preset / "config.json")["config"]
    lines = "".join(f"* **{key}:** {value}\n" for key, value in settings.items())
    return (
        "---\nlibrary_name: keras-hub\npipeline_tag: translation\n---\n"
        "A translator made with keras-attn-zoo, for Keras 3 with JAX, TensorFlow or PyTorch:\n\n"
        f'```python\nimport keras_attn_zoo as kaz\n\ntranslator = kaz.Translator.from_preset("hf://{name}")\n```\n\n'
        f"Its body:\n\n{lines}"
    ).encode()


def _check_package(address, scheme):
    package = PACKAGES[scheme]
    if importlib.util.find_spec(package) is None:
        advice = "use that backend" if scheme == "gs" else f"pip install {package}"
        raise UserError(f"{shown(address)} needs the package {package}, which is not installed: {advice}.")


def _cached_if_nobody_answers(preset, address):
    from huggingface_hub import constants, hf_hub_url, snapshot_download
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(address)
    except HFValidationError:
        raise UserError(f"{shown(preset)} is not of the form hf://USER/PRESET: check the name.") from None
    if not constants.HF_HUB_OFFLINE and _answers(hf_hub_url(address, "config.json")):
        return preset
    return snapshot_download(address, local_files_only=True)


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
    return f"cannot reach {_host(scheme)} for {shown(preset)}, and the cache has no copy: check the network."


def _host(scheme):
    if scheme == "hf":
        from huggingface_hub import constants

        return urllib.parse.urlsplit(constants.ENDPOINT).netloc
    return _HOSTS[scheme]


def _kinds(error):
    """Names of the classes of an error and its causes."""
    return {type(cause).__name__ for cause in _causes(error)}


def _statuses(error):
    """What a server answered, if that is the error."""
    return {getattr(getattr(cause, "response", None), "status_code", None) for cause in _causes(error)}


def _causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
