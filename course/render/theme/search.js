// Search over assets/search-index.js, loaded when it is first needed. Words are found as substrings:
// that needs no word segmentation, so Chinese is found like anything else.
(() => {
  const page = document.documentElement;
  const root = page.dataset.root;
  const dialog = document.querySelector("dialog.search");
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("ul");
  const status = dialog.querySelector(".search-status");
  const language = page.lang.slice(0, 2);
  const LIMIT = 30;
  let selected = -1;

  const load = () => new Promise((resolve, reject) => {
    if (window.courseSearch) return resolve(window.courseSearch);
    const script = document.createElement("script");
    script.src = `${root}assets/search-index.js`;
    script.onload = () => resolve(window.courseSearch);
    script.onerror = reject;
    document.head.append(script);
  });

  // An entry is [language, page title, section title, href, text]; every term must occur in it.
  const score = ([lang, title, section, , text], terms) => {
    let points = lang === language ? 1000 : 0;
    const heading = section.toLowerCase();
    const rest = `${title} ${text}`.toLowerCase();
    for (const term of terms) {
      const inHeading = heading.includes(term);
      const inText = rest.split(term).length - 1;
      if (!inHeading && !inText) return 0;
      points += (inHeading ? 50 : 0) + Math.min(inText, 10) + 1;
    }
    return points;
  };

  const marked = (node, text, terms) => {
    const escaped = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    text.split(new RegExp(`(${escaped.join("|")})`, "gi")).forEach((piece, index) => {
      if (!piece) return;
      const part = document.createElement(index % 2 ? "mark" : "span");
      part.textContent = piece;
      node.append(part);
    });
    return node;
  };

  const element = (tag, name) => {
    const node = document.createElement(tag);
    node.className = name;
    return node;
  };

  const snippet = (text, terms) => {
    const places = terms.map((term) => text.toLowerCase().indexOf(term)).filter((at) => at >= 0);
    const start = Math.max(0, Math.min(...places, text.length) - 40);
    const shown = places.length ? text.slice(start, start + 150) : text.slice(0, 150);
    return `${places.length && start ? "…" : ""}${shown}${start + 150 < text.length ? "…" : ""}`;
  };

  const row = ([lang, title, section, href, text], terms, index) => {
    const item = element("li", "");
    item.id = `result-${index}`;
    item.setAttribute("role", "option");
    const link = element("a", "");
    link.href = root + href;
    link.tabIndex = -1;
    link.lang = lang;
    const heading = marked(element("span", "result-title"), section || title, terms);
    if (section !== title) {
      const where = element("span", "result-page");
      where.textContent = ` · ${title}`;
      heading.append(where);
    }
    link.append(heading, marked(element("span", "result-text"), snippet(text, terms), terms));
    item.append(link);
    item.addEventListener("mousemove", () => select(index));
    return item;
  };

  const select = (index) => {
    const items = [...list.children];
    selected = items.length ? (index + items.length) % items.length : -1;
    items.forEach((item, at) => item.setAttribute("aria-selected", String(at === selected)));
    if (selected < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", items[selected].id);
    items[selected].scrollIntoView({ block: "nearest" });
  };

  const search = async () => {
    const index = await load();
    const terms = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = terms.length
      ? index.map((entry) => [score(entry, terms), entry]).filter(([points]) => points > 0)
      : [];
    found.sort((a, b) => b[0] - a[0]);
    list.replaceChildren(...found.slice(0, LIMIT).map(([, entry], at) => row(entry, terms, at)));
    input.setAttribute("aria-expanded", String(found.length > 0));
    if (!terms.length) status.textContent = "";
    else status.textContent = found.length ? `${found.length} ${dialog.dataset.some}` : dialog.dataset.none;
    select(0);
  };

  const open = () => {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    search();
  };

  document.querySelector(".search-button").addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const shortcut = event.key === "k" && (event.ctrlKey || event.metaKey);
    if (shortcut || (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey)) {
      event.preventDefault();
      open();
    }
  });
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      select(selected + step);
    } else if (event.key === "Escape") {
      event.preventDefault();  // a search field would only be emptied
      dialog.close();
    } else if (event.key === "Enter" && !event.isComposing && selected >= 0) {
      event.preventDefault();
      list.children[selected].querySelector("a").click();
    }
  });
  list.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
