// The search, position by position: what was considered, kept and dropped.

const WIDTH = 108;
const HEIGHT = 30;

class Search {
  constructor(page) {
    this.page = page;
    this.system = 0;
    this.chosen = null;
    this.controls = make("div", { class: "controls" });
    this.tree = make("div", { class: "tree", role: "group", "aria-label": "Candidates by position; arrow keys move, Enter follows one" });
    this.scroller = make("div", { class: "tree-scroller" }, this.tree);
    this.where = make("p", { class: "where", role: "status", "aria-live": "polite" });
    this.table = make("div", { class: "table" });
    this.own = make("p", { class: "hint" }, "This is the model's own search: a translation that is given is not searched for.");
    this.element = make("section", { class: "search", hidden: true }, make("h2", {}, "Search"),
      make("p", { class: "hint" }, "The candidates at each position, best first; dashed ones were dropped. A percentage is the probability of a token after those before it in its hypothesis. Choose one to see its attention."),
      this.own, this.controls, this.scroller, this.where, this.table);
  }

  get result() { return this.page.sentence.results[this.system]; }
  get steps() { return (this.page.sentence && this.result.steps) || []; }

  update() {
    const { systems } = this.page.store;
    const { results } = this.page.sentence;
    // Some searches record no steps, others are still to come.
    const recorded = systems.map((_, i) => i).filter((i) => results[i].steps?.length);
    this.chosen = null;
    this.element.hidden = !recorded.length;
    if (!recorded.length) return;
    if (!recorded.includes(this.system)) [this.system] = recorded;
    this.own.hidden = !this.result.paths.some(({ kind }) => kind === "given");
    this.position = this.steps.length - 1;
    const step = (by) => () => this.go(this.position + by);
    this.back = make("button", { type: "button", "aria-label": "Previous position", onclick: step(-1) }, "◀");
    this.on = make("button", { type: "button", "aria-label": "Next position", onclick: step(1) }, "▶");
    this.slider = make("input", { type: "range", min: "1", max: String(this.steps.length), "aria-label": "Position of the search" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value) - 1));
    const parts = [make("span", { class: "stepper" }, this.back, this.slider, this.on)];
    this.select = null;
    if (systems.length > 1) {
      const some = systems.map((_, i) => i).filter((i) => results[i].waiting || recorded.includes(i));
      this.select = makeSelect("System", some.map((i) => [i, systems[i].name]), this.system, (i) => { this.system = Number(i); this.update(); });
      parts.unshift(make("label", {}, make("span", {}, "System"), this.select));
      this.allow();
    }
    this.controls.replaceChildren(...parts);
    this.showTree();
    this.go(this.position);
  }

  // Let those be chosen that have been searched.
  allow() {
    for (const option of this.select?.options ?? []) option.disabled = !this.page.sentence.results[option.value].steps?.length;
  }

  showTree() {
    const { steps } = this;
    const rows = Math.max(...steps.map((step) => step.tokens.length));
    const lines = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    lines.setAttribute("width", steps.length * WIDTH);
    lines.setAttribute("height", rows * HEIGHT);
    lines.setAttribute("aria-hidden", "true");
    this.tree.style.width = `${steps.length * WIDTH}px`;
    this.tree.style.height = `${rows * HEIGHT}px`;
    this.nodes = steps.map((step, at) => step.tokens.map((token, place) => this.node(step, at, token, place)));
    this.lines = steps.map((step, at) => step.parents.map((parent, place) => {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      if (at) {
        const [x, y, to] = [at * WIDTH, (parent + 0.5) * HEIGHT, (place + 0.5) * HEIGHT];
        line.setAttribute("d", `M${x - 12} ${y}C${x} ${y} ${x - 6} ${to} ${x + 2} ${to}`);
        lines.append(line);
      }
      return line;
    }));
    this.tree.replaceChildren(lines, ...this.nodes.flat());
  }

  node(step, at, token, place) {
    const p = Math.exp(ownLogProb(this.steps, at, place));
    const kept = place < this.beams;
    const frozen = token === "";
    const label = frozen ? "finished" : plain(token) || token;
    // A piece that continues a word is told from one that begins it.
    const text = frozen ? "✓" : /^\p{L}/u.test(token) ? `‑${token}` : plain(token) || token;
    const said = `${label}, position ${at + 1}, rank ${place + 1}, ${frozen ? "" : `probability ${percent(p)}, `}${kept ? "kept" : "dropped"}`;
    const button = make("button", { type: "button", tabindex: "-1", "aria-label": said, title: said, class: kept ? "kept" : "dropped" },
      make("span", { class: "word", dir: "auto" }, text), make("small", {}, frozen ? "" : percent(p)));
    button.style.left = `${at * WIDTH + 2}px`;
    button.style.top = `${place * HEIGHT + 2}px`;
    button.classList.toggle("ended", Boolean(step.ended[place]));
    button.addEventListener("click", () => this.follow(at, place));
    button.addEventListener("keydown", (event) => this.key(event, at, place));
    return button;
  }

  get beams() { return this.page.store.systems[this.system].beams; }

  key(event, at, place) {
    const { steps } = this;
    const children = at + 1 < steps.length ? steps[at + 1].parents.indexOf(place) : -1;
    const moves = {
      ArrowLeft: at ? [at - 1, steps[at].parents[place]] : null,
      ArrowRight: at + 1 < steps.length ? [at + 1, children >= 0 && place < this.beams ? children : 0] : null,
      ArrowUp: [at, Math.max(0, place - 1)],
      ArrowDown: [at, Math.min(steps[at].tokens.length - 1, place + 1)],
      Home: [0, 0],
      End: [steps.length - 1, 0],
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    if (!moves[event.key]) return;
    const [to, rank] = moves[event.key];
    if (to !== this.position) this.go(to, false);
    this.mark(to, rank);
    this.nodes[to][rank].focus();
  }

  mark(at, place) {
    for (const node of this.nodes.flat()) node.tabIndex = -1;
    this.nodes[at][place].tabIndex = 0;
  }

  // Show the search up to a position.
  go(position, scroll = true) {
    this.position = Math.max(0, Math.min(this.steps.length - 1, position));
    const step = this.steps[this.position];
    const kept = Math.min(this.beams, step.tokens.length);
    this.slider.value = String(this.position + 1);
    this.slider.setAttribute("aria-valuetext", `position ${this.position + 1} of ${this.steps.length}`);
    this.back.disabled = this.position === 0;
    this.on.disabled = this.position === this.steps.length - 1;
    this.where.textContent = `Position ${this.position + 1} of ${this.steps.length}: ${kept} kept, ${step.tokens.length - kept} dropped`;
    this.nodes.forEach((column, at) => column.forEach((node, place) => {
      node.classList.toggle("future", at > this.position);
      node.classList.toggle("now", at === this.position);
      this.lines[at][place].setAttribute("class", `${place < this.beams ? "kept" : "dropped"}${at > this.position ? " future" : ""}`);
    }));
    this.mark(this.position, 0);
    this.showPath();
    this.showTable();
    if (scroll) this.scroller.scrollLeft = (this.position + 1) * WIDTH - this.scroller.clientWidth + 40;
  }

  showPath() {
    const path = this.chosen ? ancestry(this.steps, ...this.chosen) : [];
    this.nodes.forEach((column, at) => column.forEach((node, place) => {
      const on = path.some(([a, p]) => a === at && p === place);
      node.classList.toggle("followed", on);
      node.setAttribute("aria-pressed", String(on && at === this.chosen[0]));
      this.lines[at][place].classList.toggle("followed", on);
    }));
  }

  showTable() {
    const { steps, position } = this;
    const step = steps[position];
    const head = make("tr", {}, ...["", "hypothesis", "p", "log p", "score", ""].map((text) => make("th", { scope: "col" }, text)));
    const rows = step.tokens.map((token, place) => {
      const chain = ancestry(steps, position, place).slice(0, -1);
      const before = plain(chain.map(([at, one]) => steps[at].tokens[one].replace(END, ` ${END}`)).join(""));
      const kept = place < this.beams;
      const frozen = token === "";
      const text = make("button", { type: "button", class: "quiet", onclick: () => this.follow(position, place) },
        make("span", { class: "before", dir: "auto" }, before), token.startsWith("▁") || token === END ? " " : "",
        make("b", { dir: "auto" }, frozen ? "" : plain(token) || token));
      const status = `${kept ? "kept" : "dropped"}${step.ended[place] ? ", finished" : ""}`;
      return make("tr", { class: kept ? "kept" : "dropped" }, make("td", {}, String(place + 1)), make("td", {}, text),
        make("td", {}, frozen ? "" : percent(Math.exp(ownLogProb(steps, position, place)))),
        make("td", {}, signed(step.logProbs[place])), make("td", {}, signed(step.scores[place])), make("td", {}, status));
    });
    this.table.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  // Have a panel show the attention of a candidate.
  follow(at, place) {
    this.chosen = [at, place];
    this.mark(at, place);
    this.showPath();
    this.page.followBeam(this.system, at, place);
  }
}
