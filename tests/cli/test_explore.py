"""`attn-zoo explore`: pages written and served, and what is wrong with a command line told in one line."""

import http.client
import json
import socket
import threading

import pytest

from keras_attn_zoo.viewing import page_server
from tests.tiny_run import make_text
from tests.viewing.test_page_packing import unpack


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    make_text(tmp_path_factory.mktemp("explore") / "text")
    return tmp_path_factory.getbasetemp() / "explore0" / "text"


def data_of(path):
    html = path.read_text(encoding="utf-8")
    return unpack(html.split('id="data">')[1].split("</script>")[0])[0]


def test_sentences_and_two_models(attn_zoo, trained, tmp_path):
    page = tmp_path / "page.html"
    status, output, error = attn_zoo("explore", trained, trained / "best", "rot haus", "--output", page, "blau <b>")
    assert (status, output, error) == (0, "", f"wrote {page}\n")
    data = data_of(page)
    assert [system["name"] for system in data["systems"]] == ["tiny", "best"]
    assert [sentence["text"] for sentence in data["sentences"]] == ["rot haus", "blau <b>"]


def test_the_folder_that_it_is_called_in_has_a_name(attn_zoo, trained, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    for folder, given in ((trained, "."), (trained / "best", "..")):
        monkeypatch.chdir(folder)
        assert attn_zoo("explore", given, "rot haus", "--output", page)[0] == 0
        assert [system["name"] for system in data_of(page)["systems"]] == ["tiny"]


def test_what_looks_like_a_path_or_an_address_may_be_a_sentence(attn_zoo, trained, tmp_path):
    page, sentences = tmp_path / "page.html", ["rot http://haus/blau", "rot " + "h" * 300, "Haus.", "nowhere"]
    assert attn_zoo("explore", trained, *sentences, "--max-tokens", "1000", "--output", page)[0] == 0
    assert [sentence["text"] for sentence in data_of(page)["sentences"]] == sentences


def test_text_translations_and_gold_links(attn_zoo, trained, tmp_path, text):
    page, lines = tmp_path / "page.html", (text / "test.en").read_text().splitlines()
    (tmp_path / "force").write_text("\n".join([*lines[:-1], ""]) + "\n")
    gold = (text / "test.gold").read_text().splitlines()
    (tmp_path / "gold").write_text("\n".join([*gold[:-1], ""]) + "\n")
    files = ("--text", text / "test.de", "--force", tmp_path / "force")
    assert attn_zoo("explore", trained, *files, "--gold", tmp_path / "gold", "--output", page)[0] == 0
    data = data_of(page)
    assert data["systems"][0]["bestBy"] == "aer"
    kinds = [[path["kind"] for path in sentence["results"][0]["paths"]] for sentence in data["sentences"]]
    assert kinds == [["own", "given"]] * 5 + [["own"]]
    assert data["sentences"][0]["gold"] == [[*map(int, link.split("-")), 1] for link in sorted(gold[0].split())]
    assert data["sentences"][5]["gold"] is None


def test_empty_lines_of_a_file_are_left_out_with_what_belongs_to_them(attn_zoo, trained, tmp_path):
    page = tmp_path / "page.html"
    for name, text in (("de", "rot haus\n\nblau\n"), ("en", "house red\nx\nblue\n"), ("gold", "0-1 1-0\n\n0-0\n")):
        (tmp_path / name).write_text(text)
    files = ("--text", tmp_path / "de", "--force", tmp_path / "en", "--gold", tmp_path / "gold")
    status, _, error = attn_zoo("explore", trained, *files, "--output", page)
    assert status == 0 and error.splitlines()[0] == f"{tmp_path / 'de'}: left out 1 of 3 lines, which are empty"
    sentences = data_of(page)["sentences"]
    assert [(one["text"], one["results"][0]["paths"][1]["text"]) for one in sentences] == [
        ("rot haus", "house red"),
        ("blau", "blue"),
    ]
    assert [one["gold"] for one in sentences] == [[[0, 1, 1], [1, 0, 1]], [[0, 0, 1]]]


def test_a_run_has_sentences_of_its_own(attn_zoo, trained, tmp_path):
    assert attn_zoo("explore", trained, "--output", tmp_path / "page.html")[0] == 0
    assert len(data_of(tmp_path / "page.html")["sentences"]) == 5


BAD = {
    "say where the page goes": ["RUN", "rot"],
    "there is no folder or published preset nowhere": ["nowhere", "rot", "--output", "PAGE"],
    "runs/unifrom is not a model. Give a sentence": ["RUN", "runs/unifrom", "rot", "--output", "PAGE"],
    "transfomer_tatoeba_de_en is not a model: did you mean transformer_tatoeba_de_en?": [
        *("RUN", "transfomer_tatoeba_de_en", "Hallo.Welt", "--output", "PAGE")
    ],
    "preset Transformer_tatoeba_de_en: did you mean transformer_tatoeba_de_en?": [
        *("Transformer_tatoeba_de_en", "rot", "--output", "PAGE")
    ],
    "preset 'ein Haus': a model is named first": ["ein Haus", "RUN", "--output", "PAGE"],
    "preset transformer_tatoeba: did you mean transformer_tatoeba_de_en or transformer_tatoeba_en_de?": [
        *("transformer_tatoeba", "rot", "--output", "PAGE")
    ],
    "is a model behind sentences": ["RUN", "rot haus", "hf://user/preset", "--output", "PAGE"],
    "is given twice: give each once": ["RUN", "RUN", "rot", "--output", "PAGE"],
    "there is nothing to explore: give sentences": ["RUN/best", "--output", "PAGE"],
    "sentence 1 is empty": ["RUN", " ", "--output", "PAGE"],
    "more than the": ["RUN", "rot " * 40, "--output", "PAGE"],
    "received both sentences and --text": ["RUN", "rot", "--text", "RUN/test.tsv", "--output", "PAGE"],
    "--gold needs --force": ["RUN", "rot", "--gold", "x", "--output", "PAGE"],
    "there is no --gold": ["RUN", "rot", "--index-base", "1", "--output", "PAGE"],
    "there is no --serve": ["RUN", "rot", "--port", "1", "--output", "PAGE"],
    "there is no --serve: leave out --allow-host and --base-path and --allow-frame.": [
        *("RUN", "rot", "--allow-host", "a", "--base-path", "/a/", "--allow-frame", "https://a", "--output", "PAGE")
    ],
    "a host is a name or an address": ["RUN", "--serve", "--allow-host", "a", "--allow-host", "https://a"],
    "the base path is one": ["RUN", "--serve", "--base-path", "https://a/b"],
    "is given by its origin": ["RUN", "--serve", "--allow-frame", "*"],
    "there is no file": ["RUN", "--text", "nowhere", "--output", "PAGE"],
    "cannot write": ["RUN", "rot", "--output", "RUN/test.tsv/page.html"],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_command_lines(refused, trained, tmp_path, message):
    words = [word.replace("RUN", str(trained)).replace("PAGE", str(tmp_path / "page.html")) for word in BAD[message]]
    refused(message, "explore", *words)
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken(refused, trained):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(f"cannot listen on port {port} of 127.0.0.1", "explore", trained, "rot", "--serve", "--port", port)


def test_serving(attn_zoo, trained, monkeypatch):
    """A sentence that is typed in is translated; Ctrl-C ends the server and gives the port back."""
    found = {}

    def serve(self):
        thread = threading.Thread(target=lambda: page_server.http.server.ThreadingHTTPServer.serve_forever(self))
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/", headers={"Host": "zoo.example"})
        page = connection.getresponse()
        found["policy"] = page.headers["Content-Security-Policy"] if page.read() else None
        body = json.dumps({"sentence": "rot haus", "target": "house red"})
        connection.request("POST", "/proxy/8/explore", body, {"Content-Type": "application/json"})
        found["answer"], found["port"] = connection.getresponse().read().decode(), self.port
        body = json.dumps({"sentence": "rot " * 40})
        connection.request("POST", "/explore", body, {"Content-Type": "application/json"})
        found["long"] = connection.getresponse().read().decode()
        self.shutdown()
        thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(page_server.PageServer, "serve_forever", serve)
    permitted = ("--allow-host", "zoo.example", "--base-path", "/proxy/8/", "--allow-frame", "https://a.example")
    status, output, error = attn_zoo("explore", trained / "best", "--serve", "--port", "0", *permitted)
    assert (status, output) == (130, f"the page is at http://127.0.0.1:{found['port']}/ until Ctrl-C\n")
    assert "Traceback" not in error and found["policy"].endswith("frame-ancestors 'self' https://a.example")
    paths = unpack(found["answer"])[0]["sentences"][0]["results"][0]["paths"]
    assert [path["text"] for path in paths][1] == "house red"
    # As where it was started, by a command.
    assert json.loads(found["long"])["error"].endswith("split it, or set --max-tokens 41.")
    with socket.create_server(("127.0.0.1", found["port"])):
        pass
