"""Under which names and paths the server of a page answers, to whom, and in whose frames the page is shown."""

import fnmatch
import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)
_USUAL_PORTS = {"http": 80, "https": 443}
# As it stands in an address; one that begins with two slashes would lead to another site.
_PATH = re.compile(r"(?!.*//)[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
# What a content security policy takes: an origin, which may begin with a wildcard, or a scheme of an application.
_FRAME = re.compile(
    r"https?://(\*\.)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:([0-9]{1,5}|\*))?|(?!https?:)[a-z][a-z0-9+.-]{0,40}:"
)
# Schemes of applications that show their frames in a page with another one.
_AROUND = {"vscode-webview:": "vscode-file:"}
_NO_FRAMES = (
    "this page may not be shown in a frame: add --allow-frame with the origin of the page around it, such as "
    "https://example.org, or an application's scheme, such as vscode-webview:."
)
_FRAMED = {"iframe", "frame", "embed", "object"}


class Access:
    """What reaches a `PageServer` besides requests for its own address, and for names of this machine.

    Nothing else is needed on the machine itself, nor where its port is forwarded, under whatever number. A refusal says
    which option of `attn-zoo explore` permits it: `--allow-host` for `hosts`, `--base-path`, and `--allow-frame` for
    `frames`.

    Args:
        hosts: names or addresses, without ports, by which it is reached, such as that of a proxy in front of it. A
            site that takes such a name reaches the server through the browsers of its visitors.
        base_path: the path before that of the page, where a proxy passes it on.
        frames: origins of pages that may show this one in a frame, such as `https://example.org` or
            `https://*.example.org`, or schemes of applications, such as `vscode-webview:`. Those of the page's own
            origin may.

    Raises:
        UserError: a host, a path or an origin that is not one.

    Example:
        >>> Access(["example.org"], "/proxy/8000").base_path
        '/proxy/8000/'
    """

    def __init__(self, hosts: Iterable[str] = (), base_path: str = "/", frames: Iterable[str] = ()) -> None:
        self.hosts = frozenset(map(_as_host, hosts))
        if not _is_base(base_path):
            raise UserError(
                f"the base path is one as in an address, such as /proxy/8000/; received {shown(base_path)}."
            )
        self.base_path = "".join(f"/{part}" for part in base_path.split("/") if part) + "/"
        self.frames = tuple(map(_as_frame, frames))

    def refused_host(self, host: str, own: Collection[str] | None) -> tuple[int, str] | None:
        """Return status and message if a `Host` header does not name this server.

        Its `own` names are those of the address that it listens on, None where it listens on all of them.
        """
        found = _name_and_port(host)
        if found is None:
            return 400, "the request has no valid Host: name this server in it."
        name = found[0]
        # No site's name turns into an address, or into what means this machine.
        if _is_loopback(name) or name in self.hosts or (_is_address(name) if own is None else name in own):
            return None
        return 403, f"this server does not answer to the name {name}: if it is yours, add --allow-host {name}."

    def refused_origin(self, origin: str, host: str) -> tuple[int, str] | None:
        """Return status and message if an `Origin` header is not that of this page; the `Host` beside it is known."""
        scheme, _, authority = origin.partition("://")
        found = _name_and_port(authority)
        if scheme not in _USUAL_PORTS or found is None:
            return 403, "this server answers only its own page, not one in a sandbox, a file or an extension."
        name, port = found
        own, own_port = _name_and_port(host)
        if name in self.hosts or (scheme == "http" and (name, port or 80) == (own, own_port or 80)):
            return None
        return 403, (
            f"this server answers only its own page, not one of {scheme}://{authority}: if that is this page behind a "
            f"proxy, add --allow-host {name}."
        )

    def refused_frame(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return status and message if a browser says that it will show the page in a frame where it may not.

        What it does not say, the policy decides.
        """
        if headers.get("Sec-Fetch-Dest") not in _FRAMED or headers.get("Sec-Fetch-Site") in ("same-origin", "none"):
            return None
        scheme, _, rest = headers.get("Referer", "").partition("://")
        # An application's scheme says whose frame it is, and what follows is another one each time.
        around = f"{scheme}://{rest.partition('/')[0]}" if scheme in ("http", "https", "") else f"{scheme}:"
        if not _FRAME.fullmatch(around):
            # With frames that are given, a browser decides by the policy.
            return None if self.frames else (403, _NO_FRAMES)
        if any(fnmatch.fnmatchcase(around, frame) for frame in self.frames):
            return None
        missing = [one for one in (around, _AROUND.get(around)) if one is not None and one not in self.frames]
        return 403, (
            f"this page may not be shown in a frame of {around.removesuffix(':')}: if that is yours, add "
            f"{' and '.join(f'--allow-frame {one}' for one in missing)}."
        )

    def frame_headers(self) -> tuple[str, dict[str, str]]:
        """Return who may show the page in a frame: a part of its policy, and the older header if that can say it."""
        policy = " ".join(["frame-ancestors 'self'", *self.frames])
        return policy, {} if self.frames else {"X-Frame-Options": "SAMEORIGIN"}

    def route(self, target: str) -> str | None:
        """Return what a request is for: "" is the page, "explore" its sentences, a path where to go; None is nothing.

        A proxy may pass the base path on, or take it off. What follows a question mark is ignored.
        """
        path, mark, query = target.partition("?")
        if f"{path}/" == self.base_path:
            return f"{self.base_path}{mark}{query}"
        for base in (self.base_path, "/"):
            if path in (base, f"{base}explore"):
                return path.removeprefix(base)
        return None

    def nothing_at(self, target: str) -> tuple[int, str]:
        """Return status and message for a path where there is nothing."""
        path = target.partition("?")[0].removesuffix("explore")
        message = f"there is nothing here; the page is at {self.base_path}."
        # Browsers ask for files such as an icon by themselves.
        if not _is_base(path) or "." in path.rpartition("/")[2]:
            return 404, message
        base = path if path.endswith("/") else f"{path}/"
        return 404, f"{message} If it is behind a proxy that passes this path on, add --base-path {base}."


def _is_base(path):
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def _as_host(text):
    try:
        # Browsers write other scripts' names like this.
        found = _name_and_port(text if ":" in text else text.encode("idna").decode("ascii"))
    except UnicodeError:
        found = None
    name = text.strip("[]").lower() if _is_address(text.strip("[]")) else found and found[1] is None and found[0]
    if not name:
        raise UserError(
            f"a host is a name or an address without scheme, port or path, such as example.org; received {shown(text)}."
        )
    return name


def _as_frame(text):
    found = text.lower().removesuffix("/")
    if not _FRAME.fullmatch(found):
        raise UserError(
            "a page that may show this one in a frame is given by its origin, such as https://example.org, or by the "
            f"scheme of an application, such as vscode-webview:; received {shown(text)}."
        )
    return found


def _name_and_port(authority):
    """Name, in small letters and without brackets, and port or None; None of what is neither name nor address."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None or (found[1] and not _is_address(found[1])):
        return None
    return (found[1] or found[2]).lower(), int(found[3]) if found[3] else None


def _is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name):
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)
