// The page: what all panels share, the keyboard, the theme, and sentences that are typed in.

const KEYS = [
  ["↑ ↓ ← →", "move over words, cells and candidates"], ["Enter", "keep a word, or follow a candidate"], ["Esc", "release it"],
  ["[  ]", "previous layer, next layer"], [",  .", "previous head, next head"], ["n  p", "next sentence, previous sentence"],
  ["j  k", "search: next position, previous position"], ["v", "ribbons, matrix, all heads"], ["w", "words or subwords"],
];

class Page {
  // "live": a function that makes what translates sentences that are typed in, or null; see live_page.js.
  constructor(store, live) {
    this.store = store;
    this.index = 0;
    this.level = "words";
    this.view = "ribbons";
    this.panels = [];
    this.active = null;
    this.search = new Search(this);
    this.panelBox = make("div", { class: "panels" });
    this.toolbar = make("div", { class: "toolbar" });
    this.source = make("p", { class: "source", dir: "auto" });
    this.element = document.getElementById("page");
    this.form = live ? this.liveForm(live) : null;
    this.element.replaceChildren(...[this.head(), this.form, this.toolbar, this.source, this.panelBox, this.search.element].filter(Boolean));
    this.readColours();
    this.showSystems();
    this.listen();
    this.showSentence(0);
  }

  get sentence() { return this.store.sentences[this.index]; }

  head() {
    this.themeButton = make("button", { type: "button", class: "quiet", "aria-label": "Light or dark", onclick: () => this.toggleTheme() }, "◐");
    const help = make("details", { class: "keys" }, make("summary", {}, "Keys"),
      make("dl", {}, ...KEYS.flatMap(([key, what]) => [make("dt", {}, key), make("dd", {}, what)])));
    return make("header", { class: "head" }, make("h1", {}, "Attention"), help, this.themeButton);
  }

  // Begin with a panel for each system that was chosen on this page; else for each, up to three.
  showSystems() {
    const { systems } = this.store;
    this.panelBox.replaceChildren();
    this.panels = [];
    this.active = null;
    if (systems.length > 1) systems.slice(0, this.live?.choice ? systems.length : 3).forEach((_, i) => this.addPanel({ system: i }));
    else if (systems[0]?.places.posterior) ["prior", "posterior"].forEach((place) => this.addPanel({ place }));
    else if (systems.length) this.addPanel({});
  }

  // Show one more sentence, and the translation that was given with it, or null. Return a function that undoes it, if it
  // has replaced an earlier result.
  take(found, target) {
    const [index, earlier] = this.store.add(found, target);
    this.showSentence(index, target !== null);
    return () => {
      if (!earlier) return;
      this.store.sentences[index] = earlier;
      if (this.index === index) this.showSentence(index, target !== null);
    };
  }

  // Show what has become of a sentence since; a panel that has not changed stays as it is.
  renew(sentence, { data, weights }) {
    const before = sentence.results;
    Object.assign(sentence, data.sentences[0], { weights });
    if (this.sentence !== sentence) return;
    if (this.search.element.hidden) this.search.update();
    else this.search.allow();
    for (const panel of this.panels) if (panel.result.waiting !== before[panel.choice.system].waiting) panel.update();
  }

  liveForm(live) {
    const text = make("textarea", { rows: "2", "aria-label": "Sentence", placeholder: "A sentence to translate", required: true, name: "sentence", dir: "auto" });
    const target = make("textarea", { rows: "2", "aria-label": "A translation of your own", placeholder: "A translation of your own, if you like: it is forced and aligned", name: "target", dir: "auto" });
    const message = make("p", { class: "message", role: "status", "aria-live": "polite" });
    const say = (said, fault = false) => {
      message.textContent = said;
      message.classList.toggle("fault", fault);
    };
    this.live = live(say);
    const button = make("button", { type: "submit", disabled: Boolean(this.live.lacks) }, "Translate");
    this.areas = [text, target];
    this.filled = ["", ""];
    let { example } = this.live;
    this.fill(example);
    this.live.choice?.addEventListener("change", () => { if (text.value === example) this.fill(example = this.live.example); });
    for (const event of ["focus", "click"]) text.addEventListener(event, () => { if (text.value === example) text.select(); }, { once: true });
    const stop = make("button", { type: "button", class: "stop", hidden: true, onclick: () => this.live.stop() }, "Stop");
    const form = make("form", { class: "live" }, this.live.choice, text, target, make("span", { class: "buttons" }, button, stop), message);
    for (const area of this.areas) {
      area.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
      });
    }
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (button.disabled) return;
      button.disabled = true;
      stop.hidden = !this.live.stop;
      say("Translating …");
      const typed = this.areas.map(({ value }) => value);
      const given = target.value.trim() === "" ? null : target.value;
      let sentence = null;
      let undo = null;
      try {
        for await (const found of this.live.examine(text.value, given)) {
          if (sentence) this.renew(sentence, found);
          else {
            // The list has it now.
            this.filled = typed;
            undo = this.take(found, given);
            ({ sentence } = this);
          }
        }
        say(this.live.fault, true);
      } catch (error) {
        if (this.live.stopped) undo?.();
        say(error.message, !this.live.stopped);
      }
      button.disabled = false;
      stop.hidden = true;
    });
    return form;
  }

  // Put a sentence and its given translation where one types, unless something else was typed there.
  fill(...texts) {
    if (this.areas.some(({ value }, i) => value && value !== this.filled[i])) return;
    this.filled = this.areas.map((area, i) => { area.value = texts[i] ?? ""; return area.value; });
  }

  showToolbar() {
    const { sentences } = this.store;
    const short = (text) => (text.length > 60 ? `${text.slice(0, 58)}…` : text);
    const focused = this.toolbar.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const parts = [];
    if (sentences.length > 1) {
      const select = makeSelect("Sentence", sentences.map((one, i) => [i, `${i + 1}. ${short(one.text)}`]), this.index, (i) => this.showSentence(Number(i)));
      parts.push(make("span", { class: "sentences" },
        make("button", { type: "button", "aria-label": "Previous sentence", disabled: this.index === 0, onclick: () => this.showSentence(this.index - 1) }, "◀"),
        select,
        make("button", { type: "button", "aria-label": "Next sentence", disabled: this.index === sentences.length - 1, onclick: () => this.showSentence(this.index + 1) }, "▶")));
    }
    const group = (label, options, value, set) => make("span", { class: "choice", role: "group", "aria-label": label },
      ...Object.entries(options).map(([name, text]) => make("button", { type: "button", "aria-pressed": String(name === value), "aria-label": `${label}: ${text}`, onclick: () => set(name) }, text)));
    parts.push(group("View", VIEWS, this.view, (view) => this.setView(view)));
    parts.push(group("Level", { words: "words", subwords: "subwords" }, this.level, (level) => this.setLevel(level)));
    parts.push(make("button", { type: "button", onclick: () => { this.addPanel({ ...(this.active || this.panels.at(-1)).choice, beam: null }); this.update(); } }, "+ panel"));
    this.toolbar.replaceChildren(...parts);
    if (focused) [...this.toolbar.querySelectorAll("[aria-label]")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
  }

  // "given": whether to begin with the translation that was given.
  showSentence(index, given = false) {
    if (index < 0 || index >= this.store.sentences.length) return this.store.sentences.length || this.update();
    this.index = index;
    const names = ({ systems }) => systems.map(({ name }) => name).join();
    if (names(this.sentence) !== names(this.store)) {
      this.store.systems = this.sentence.systems;
      this.search.system = 0;
      this.showSystems();
    }
    this.source.textContent = this.sentence.text;
    for (const panel of this.panels) panel.choice.path = this.sentence.gold || given ? 1 : panel.wanted;
    this.search.update();
    this.update();
    this.live?.show(this.sentence.systems);
    // One that was typed.
    if (index >= this.store.given) this.fill(this.sentence.text, this.sentence.target);
  }

  setView(view) { this.view = view; this.update(); }
  setLevel(level) { this.level = level; this.update(); }

  addPanel(choice) {
    const panel = new Panel(this, choice);
    this.panels.push(panel);
    this.panelBox.append(panel.element);
    return panel;
  }

  removePanel(panel) {
    this.panels = this.panels.filter((one) => one !== panel);
    panel.element.remove();
    if (this.active === panel) this.active = null;
    this.update();
  }

  update() {
    const empty = !this.store.sentences.length;
    for (const part of [this.toolbar, this.panelBox]) part.hidden = empty;
    if (empty) return;
    this.showToolbar();
    for (const panel of this.panels) panel.update();
  }

  redraw() { for (const panel of this.panels) panel.draw(); }

  panelChanged(panel) { this.active = panel; }

  // Other panels point at the same word.
  follow(panel, focus) {
    let [kind, word] = [null, null];
    if (focus && focus.side !== "cell") {
      kind = panel.view[`${focus.side}Side`].kind;
      word = wordOf(panel.view, focus.side, focus.index);
    }
    for (const other of this.panels) if (other !== panel) other.followOf(kind, word);
  }

  followBeam(system, at, place) {
    const panel = this.panels.find((one) => one.choice.system === system) || this.addPanel({ system });
    panel.choose({ beam: [at, place], place: "cross", head: panel.choice.beam ? panel.choice.head : "mean" });
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = { accent: read("accent"), gold: read("gold"), ink: read("ink"), paper: read("paper") };
  }

  toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.recolour();
  }

  recolour() {
    this.readColours();
    this.redraw();
  }

  listen() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    let width = 0;
    new ResizeObserver(() => {
      if (this.panelBox.clientWidth !== width) { width = this.panelBox.clientWidth; this.redraw(); }
    }).observe(this.panelBox);
    // On paper everything is shown in full, and in light.
    const root = document.documentElement;
    addEventListener("beforeprint", () => { root.classList.add("printing"); this.recolour(); });
    addEventListener("afterprint", () => { root.classList.remove("printing"); this.recolour(); });
    addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input[type=text], textarea, select")) return;
    const panel = this.active || this.panels[0];
    const cycle = (values, value, by) => values[(values.indexOf(value) + by + values.length) % values.length];
    const pick = (control, by) => {
      const select = panel?.controls.querySelector(`[data-control="${control}"]`);
      if (!select) return;
      const { best } = panel.system;
      // The best layer is another name for one of the choices, in whose place it stands.
      const named = select.options[0].value === "best" ? (best === "all" ? "mean" : String(best)) : null;
      const values = Array.from(select.options, ({ value }) => value).filter((value) => value !== "best");
      const next = cycle(values, select.value === "best" ? named : select.value, by);
      select.value = next === named ? "best" : next;
      select.dispatchEvent(new Event("change"));
    };
    const actions = {
      "[": () => pick("layer", -1), "]": () => pick("layer", 1), ",": () => pick("head", -1), ".": () => pick("head", 1),
      n: () => this.showSentence(this.index + 1), p: () => this.showSentence(this.index - 1),
      j: () => this.search.steps.length && this.search.go(this.search.position + 1),
      k: () => this.search.steps.length && this.search.go(this.search.position - 1),
      v: () => this.setView(cycle(Object.keys(VIEWS), this.view, 1)),
      w: () => this.setLevel(this.level === "words" ? "subwords" : "words"),
      Escape: () => { for (const one of this.panels) one.unpin(); },
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }
}

async function start() {
  const element = document.getElementById("page");
  try {
    new DecompressionStream("deflate-raw");
  } catch {
    element.textContent = "This browser is too old for this page, which needs one from 2023 or later.";
    return;
  }
  const given = JSON.parse(document.getElementById("data").textContent);
  const { mode } = document.body.dataset;
  const live = { live: () => new Server(), browser: (say) => new BrowserModels(given.live, say) }[mode] ?? null;
  window.explorer = new Page(new Store(await unpack(given)), live);
  document.documentElement.dataset.ready = "yes";
}

start();
