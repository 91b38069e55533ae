"use strict";
// Divides long lists into pages and filters them. Without this script a list shows all its entries.
for (const list of document.querySelectorAll("[data-page]")) {
  const size = Number(list.dataset.page);
  const entries = [...list.querySelectorAll("[data-entry]")];
  if (entries.length <= size) continue;
  const make = (tag, facts) => Object.assign(document.createElement(tag), facts);
  const bar = make("div", { className: "controls" });
  const search = make("input", { type: "search", placeholder: list.dataset.search });
  search.setAttribute("aria-label", list.dataset.search);
  const status = make("span", { className: "soft" });
  status.setAttribute("role", "status");
  const before = make("button", { type: "button", textContent: "Previous" });
  const after = make("button", { type: "button", textContent: "Next" });
  const kinds = [...list.querySelectorAll("[data-kind]")];
  const texts = entries.map((entry) => entry.textContent.toLowerCase());
  let page = 0;
  let kind = "";

  const show = () => {
    const wanted = search.value.toLowerCase();
    const found = entries.filter(
      (entry, at) => texts[at].includes(wanted) && (!kind || entry.dataset.entry.split(" ").includes(kind)),
    );
    const pages = Math.max(Math.ceil(found.length / size), 1);
    page = Math.min(Math.max(page, 0), pages - 1);
    const shown = new Set(found.slice(page * size, (page + 1) * size));
    for (const entry of entries) entry.hidden = !shown.has(entry);
    status.textContent = found.length ? `${page * size + 1}–${page * size + shown.size} of ${found.length}` : "none";
    before.disabled = page === 0;
    after.disabled = page === pages - 1;
    for (const one of kinds) one.setAttribute("aria-pressed", String(one.dataset.kind === kind));
  };

  const turn = (by) => () => { page += by; show(); };
  before.addEventListener("click", turn(-1));
  after.addEventListener("click", turn(1));
  search.addEventListener("input", () => { page = 0; show(); });
  for (const one of kinds) {
    one.hidden = false;
    one.addEventListener("click", () => { kind = one.dataset.kind; page = 0; show(); });
  }
  bar.append(...kinds, search, before, after, status);
  list.prepend(bar);
  show();
}
