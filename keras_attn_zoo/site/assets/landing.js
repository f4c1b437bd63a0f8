// The landing page: the demonstration in its frame is as high as it needs to be, has the theme of the page, and begins
// with the preset that a link names, as in index.html?preset=NAME.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const frame = document.getElementById("live");
  const root = document.documentElement;

  const recolour = () => {
    const inside = frame.contentDocument?.documentElement;
    if (!inside || inside.dataset.theme === root.dataset.theme || !root.dataset.theme) return;
    inside.dataset.theme = root.dataset.theme;
    frame.contentWindow.explorer?.recolour();
  };

  const begin = () => {
    const { body } = frame.contentDocument;
    new ResizeObserver(() => { frame.style.height = `${Math.ceil(body.getBoundingClientRect().height) + 4}px`; }).observe(body);
    recolour();
    const preset = new URLSearchParams(location.search).get("preset");
    const box = [...body.querySelectorAll("input[type=checkbox]")].find((one) => one.value === preset);
    if (box && !box.disabled && !box.checked) box.click();
  };

  new MutationObserver(recolour).observe(root, { attributeFilter: ["data-theme"] });
  // Its script says when it is ready, which may be before or after this one runs.
  const wait = () => (frame.contentDocument?.documentElement?.dataset.ready ? begin() : setTimeout(wait, 50));
  wait();
});
