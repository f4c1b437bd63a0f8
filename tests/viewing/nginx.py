"""nginx on loopback, in front of servers of the page, or of a folder."""

import contextlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PLACES = ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/bin/nginx", "/opt/homebrew/bin/nginx")
CONFIG = """
daemon off;
# As whoever runs it, and no other user.
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/1;
  proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4;
  scgi_temp_path {folder}/5;
  default_type text/html;
  server {{
    listen 127.0.0.1:{port};
    {locations}
  }}
}}
"""


def executable():
    """Where nginx is, or None; Debian keeps it from the path of users."""
    return shutil.which("nginx") or next((place for place in PLACES if Path(place).exists()), None)


def locations_of(folder):
    """What serves a folder, with the types that nginx comes with, and everything compressed."""
    built = subprocess.run([executable(), "-V"], capture_output=True, text=True, check=True).stderr
    types = Path(re.search(r"--conf-path=(\S+)", built)[1]).with_name("mime.types")
    return f"include {types}; gzip on; gzip_types *; gzip_min_length 1; location / {{ root {folder}; }}"


@contextlib.contextmanager
def proxying(locations):
    """Run nginx with some `location` blocks; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(CONFIG.format(folder=folder, port=port, locations=locations))
        process = subprocess.Popen([executable(), "-p", folder, "-c", config], stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 10
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                log = Path(folder) / "error.log"
                assert process.poll() is None and time.monotonic() < end, log.read_text() if log.exists() else config
                time.sleep(0.01)
            yield port
        finally:
            process.terminate()
            process.wait()
