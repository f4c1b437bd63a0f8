// Every page: light or dark, as the guide keeps it.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => { if (theme === "light" || theme === "dark") root.dataset.theme = theme; };
  show(kept());
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      const theme = dark ? "light" : "dark";
      show(theme);
      try { localStorage.setItem("theme", theme); } catch { /* It lasts for this page. */ }
    });
    root.dataset.ready = "yes";
  });
})();
