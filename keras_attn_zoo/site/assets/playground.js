// The playground of a mechanism: its weights on the toy sentence, in every place and setting.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const toy = JSON.parse(document.getElementById("toy").textContent);
  const box = document.getElementById("playground");
  const form = box.querySelector("form");
  const [head, body] = [box.querySelector("thead tr"), box.querySelector("tbody")];
  const says = box.querySelector(".says");
  const PLACES = { cross: "cross-attention", encoder: "encoder self-attention", decoder: "decoder self-attention" };
  const choice = { name: Object.keys(toy.mechanisms)[0], place: null, setting: 0, strength: toy.strengths.indexOf(1) };

  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const settings = () => toy.mechanisms[choice.name].filter((one) => one.place === choice.place);
  const label = (text, control) => make("label", {}, make("span", {}, text), control);
  const argument = ([name, value]) => `${name}=${JSON.stringify(value)}`;
  const title = ({ arguments: changed }) => Object.entries(changed).map(argument).join(", ") || "as in the picture";

  const select = (name, text, options, read) => {
    const control = make("select", { name });
    options.forEach(([value, shown]) => control.append(make("option", { value }, shown)));
    control.value = String(choice[name]);
    control.addEventListener("change", () => { choice[name] = read(control.value); update(name); });
    return label(text, control);
  };

  const controls = () => {
    const names = Object.entries(toy.titles);
    const places = [...new Set(toy.mechanisms[choice.name].map((one) => one.place))];
    const parts = [];
    if (names.length > 1) parts.push(select("name", "Form", names, String));
    if (places.length > 1) parts.push(select("place", "Used as", places.map((one) => [one, PLACES[one]]), String));
    if (settings().length > 1) parts.push(select("setting", "Arguments", settings().map((one, i) => [i, title(one)]), Number));
    const { weights } = settings()[choice.setting];
    if (weights.length > 1) {
      const range = make("input", { type: "range", name: "strength", min: 0, max: weights.length - 1, step: 1 });
      range.value = choice.strength;
      const strength = label("", range);
      const tell = () => {
        strength.firstChild.textContent = `Words ask ${toy.strengths[choice.strength]} times as strongly`;
        range.setAttribute("aria-valuetext", `${toy.strengths[choice.strength]} times`);
      };
      // The control stays, which may be held.
      range.addEventListener("input", () => { choice.strength = Number(range.value); tell(); showWeights(); });
      tell();
      parts.push(strength);
    } else {
      parts.push(make("p", { class: "note" }, "The same, however strongly words ask."));
    }
    return parts;
  };

  const percent = (weight) => `${(100 * weight).toFixed(weight >= 0.0995 || weight === 0 ? 0 : 1)} %`;
  const describe = (word, columns, row) => {
    const order = columns.map((column, i) => [column, row[i]]).filter(([, weight]) => weight >= 0.005).sort((a, b) => b[1] - a[1]);
    const sum = row.reduce((a, b) => a + b, 0);
    const missing = sum < 0.995 ? ` The weights of this row add up to ${sum.toFixed(2)}.` : "";
    says.textContent = `“${word}” attends to ${order.map(([column, weight]) => `“${column}” ${percent(weight)}`).join(", ") || "nothing"}.${missing}`;
  };

  const showWeights = () => {
    const { weights, place } = settings()[choice.setting];
    const matrix = weights[weights.length > 1 ? choice.strength : 0];
    const columns = toy.source;
    const rows = place === "cross" ? toy.target : toy.source;
    body.replaceChildren(...rows.map((word, i) => {
      const row = make("tr", {}, make("th", { scope: "row", tabindex: 0 }, word),
        ...matrix[i].map((weight) => make("td", { "data-level": Math.round(toy.levels * weight) }, weight.toFixed(2))));
      for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => describe(word, columns, matrix[i]));
      return row;
    }));
    says.textContent = "Point at a row, or move to its word with Tab.";
  };

  const update = (changed) => {
    const places = toy.mechanisms[choice.name].map((one) => one.place);
    if (!places.includes(choice.place)) choice.place = places[0];
    if (changed === "name" || changed === "place") choice.setting = 0;
    showWeights();
    form.replaceChildren(...controls());
    if (changed) form.elements[changed].focus();
  };

  head.replaceChildren(make("td", {}), ...toy.source.map((word) => make("th", { scope: "col" }, word)));
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
});
