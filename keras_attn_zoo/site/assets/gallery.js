// The gallery: cards that are sought and sorted.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("filters");
  const list = document.getElementById("cards");
  const count = document.getElementById("count");
  const cards = [...list.children];
  const keys = {
    year: (card) => Number(card.dataset.year),
    family: (card) => Number(card.dataset.family),
    training: (card) => Number(card.dataset.training),
    step: (card) => Number(card.dataset.step),
    name: (card) => card.dataset.name,
  };
  const plain = (text) => text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "");
  const texts = new Map(cards.map((card) => [card, plain(`${card.textContent} ${card.dataset.words}`)]));

  const update = () => {
    const { search, family, place, sort } = Object.fromEntries(new FormData(form));
    const words = plain(search).split(/\s+/).filter(Boolean);
    const key = keys[sort];
    const sorted = cards.toSorted((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : cards.indexOf(a) - cards.indexOf(b)));
    let shown = 0;
    for (const card of sorted) {
      card.hidden = !(words.every((word) => texts.get(card).includes(word))
        && (!family || card.dataset.family === family) && (!place || card.dataset.places.split(" ").includes(place)));
      shown += !card.hidden;
    }
    list.append(...sorted);
    count.textContent = shown === 1 ? "1 layer" : shown ? `${shown} layers` : "No layer fits: change the words or the lists.";
  };
  form.hidden = false;
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
});
