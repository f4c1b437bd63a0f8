// Where sentences that are typed in are translated: by the server of the page, or in this browser.

class Server {
  constructor() {
    this.choice = null;
    this.stop = null;
  }

  async examine(sentence, target) {
    let answer;
    let data;
    try {
      answer = await fetch("explore", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sentence, target }),
      });
      data = await answer.json();
    } catch {
      throw new Error("The server does not answer: is it still running?");
    }
    if (!answer.ok) throw new Error(data.error);
    return unpack(data);
  }
}

// A program of WebAssembly with one instruction of SIMD.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

// What this browser lacks, or null.
function missing() {
  if (location.protocol === "file:") return "A page that translates is read from a web server: run python -m http.server in its folder, and open localhost:8000.";
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly, which translates here: open the page in a browser from 2023 or later.";
  if (!WebAssembly.validate(new Uint8Array(SIMD))) return "This browser has no SIMD in WebAssembly, which translates here: open the page in a browser from 2023 or later.";
  return null;
}

class BrowserModels {
  // "given": models and libraries, as `live_folder` writes them; "say": function of a message.
  constructor(given, say) {
    this.given = given;
    this.say = say;
    this.asked = new Map();
    this.chosen = [];
    this.loaded = new Set();
    this.fault = "";
    this.number = 0;
    const lacks = missing();
    const boxes = given.models.map((model) => this.box(model, lacks));
    this.threads = globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
    this.choice = make("fieldset", { class: "models" }, make("legend", {}, "Models"), ...boxes,
      make("p", { class: "hint" }, `What you type stays in this browser, which translates by itself, on ${this.threads === 1 ? "one thread" : `${this.threads} threads`}. A model is loaded when you choose it.`));
    if (lacks) this.choice.prepend(make("p", { class: "lacks", role: "alert" }, lacks));
  }

  box(model, lacks) {
    const size = Object.values(model.files).reduce((sum, file) => sum + file.size, 0);
    const input = make("input", { type: "checkbox", value: model.name, disabled: Boolean(lacks) });
    input.addEventListener("change", () => {
      this.chosen = this.given.models.filter((one) => (one === model ? input.checked : this.chosen.includes(one)));
      this.fault = "";
      if (!input.checked) this.say(this.ready());
      else {
        this.load(model).catch((error) => {
          input.checked = false;
          this.chosen = this.chosen.filter((one) => one !== model);
          this.fault = error.message;
        }).then(() => this.say(this.ready()));
      }
    });
    return make("label", {}, input, " ", model.system.name, make("small", {}, ` ${(size / 1e6).toFixed(1)} MB`));
  }

  // What could not be loaded, and which of the chosen models can translate.
  ready() {
    const names = this.chosen.filter(({ name }) => this.loaded.has(name)).map(({ system }) => system.name).join(", ");
    return [this.fault, names && `Ready: ${names}.`].filter(Boolean).join(" ");
  }

  async load(model) {
    await this.ask({ kind: "load", model, libraries: this.given.libraries, threads: this.threads });
    this.loaded.add(model.name);
  }

  // The worker gets the policy of this page, as one of its own address would not.
  async worker() {
    const answer = await fetch("live.js");
    if (!answer.ok) throw new Error(`live.js cannot be loaded: the server says ${answer.status}.`);
    const worker = new Worker(URL.createObjectURL(new Blob([await answer.text()], { type: "text/javascript" })));
    worker.postMessage({ base: document.baseURI });
    worker.addEventListener("message", ({ data }) => this.hear(data));
    worker.addEventListener("error", ({ message }) => { worker.terminate(); this.end(message); });
    return worker;
  }

  async ask(request) {
    this.started ??= this.worker().catch((error) => {
      this.started = null;
      throw error instanceof TypeError ? new Error("live.js cannot be loaded: is there a network?") : error;
    });
    const worker = await this.started;
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { resolve, reject });
      worker.postMessage({ ...request, id });
    });
  }

  hear({ id, found, error, stopped, loading, bytes, size }) {
    if (loading) {
      this.say(`Loading ${loading}: ${Math.round((100 * bytes) / size)} %`);
      return;
    }
    const { resolve, reject } = this.asked.get(id);
    this.asked.delete(id);
    if (error === undefined) resolve(found);
    else reject(new Error(stopped ? "Stopped." : error));
  }

  // What was asked will not be answered.
  end(message) {
    this.started = null;
    this.loaded.clear();
    for (const { reject } of this.asked.values()) reject(new Error(`The browser has ended what translates: ${message}.`));
    this.asked.clear();
  }

  async stop() {
    this.stopped = true;
    (await this.started)?.postMessage({ stop: true });
  }

  async examine(sentence, target) {
    if (!sentence.trim()) throw new Error("The sentence is empty: there is nothing to translate.");
    const models = this.chosen;
    if (!models.length) throw new Error("Choose a model first.");
    this.stopped = false;
    for (const model of models) await this.load(model);
    if (this.stopped) throw new Error("Stopped.");
    this.say("Translating …");
    const { bytes, ...found } = await this.ask({ kind: "examine", sentence, target, names: models.map(({ name }) => name) });
    const values = byteValues(...this.given.scale);
    return { data: { systems: models.map(({ system }) => system), places: this.given.places, sentences: [found] }, weights: { bytes, values } };
  }
}
