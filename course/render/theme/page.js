// What a page does after it is read: formulas, diagrams, menu, copy buttons, table of contents.
(() => {
  const page = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];

  // formulas
  for (const node of all(".math")) {
    const displayMode = node.classList.contains("display");
    katex.render(node.textContent, node, { displayMode, throwOnError: false });
  }

  // diagrams: kept as text, drawn again in the page's colours when the theme changes
  const diagrams = all("pre.mermaid").map((node) => ({ node, text: node.textContent }));
  const colours = () => {
    const style = getComputedStyle(page);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    return {
      darkMode: page.dataset.theme === "dark",
      fontSize: "16px",
      background: colour("output-bg"),
      primaryColor: colour("accent-soft"),
      primaryTextColor: colour("text"),
      primaryBorderColor: colour("accent"),
      lineColor: colour("muted"),
      textColor: colour("text"),
      clusterBkg: colour("panel"),
      clusterBorder: colour("line"),
      edgeLabelBackground: colour("output-bg"),
    };
  };
  const draw = async () => {
    mermaid.initialize({
      startOnLoad: false,
      // Else two diagrams drawn in the same millisecond share an id, and one lands in the other.
      deterministicIds: true,
      securityLevel: "strict",
      theme: "base",
      themeVariables: colours(),
      fontFamily: getComputedStyle(document.body).fontFamily,
      flowchart: { nodeSpacing: 28, rankSpacing: 36 },
    });
    for (const { node, text } of diagrams) {
      node.removeAttribute("data-processed");
      node.textContent = text;
    }
    await mermaid.run({ nodes: diagrams.map(({ node }) => node) });
  };
  if (diagrams.length) {
    let drawing = document.fonts.ready.then(draw);
    document.addEventListener("theme", () => { drawing = drawing.then(draw); });
  }

  // theme and menu
  document.querySelector(".theme-button").addEventListener("click", () => window.toggleTheme());
  const menu = document.querySelector(".menu-button");
  const openMenu = (open) => {
    page.classList.toggle("menu-open", open);
    menu.setAttribute("aria-expanded", String(open));
  };
  menu.addEventListener("click", () => openMenu(!page.classList.contains("menu-open")));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && page.classList.contains("menu-open")) {
      openMenu(false);
      menu.focus();
    }
  });

  // links to headings
  for (const heading of all("article :is(h2, h3, h4)[id]")) {
    const link = document.createElement("a");
    link.className = "anchor";
    link.href = `#${heading.id}`;
    link.setAttribute("aria-label", `# ${heading.textContent}`);
    link.textContent = "#";
    heading.append(link);
  }

  // copy buttons
  const chinese = page.lang.startsWith("zh");
  for (const block of all("div.sourceCode")) {
    if (!navigator.clipboard || block.closest(".cell-output")) continue;
    const button = document.createElement("button");
    const label = chinese ? "复制" : "Copy";
    button.type = "button";
    button.className = "copy";
    button.textContent = label;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").innerText);
      button.textContent = chinese ? "已复制" : "Copied";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
    block.append(button);
  }

  // the heading being read, in the table of contents
  const entries = new Map(all("aside.toc a").map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
  const headings = all("article [id]").filter((node) => entries.has(node.id));
  const mark = () => {
    const passed = headings.filter((node) => node.getBoundingClientRect().top < 120);
    const current = (passed.at(-1) || headings[0])?.id;
    for (const [id, link] of entries) {
      if (id === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  if (headings.length) {
    document.addEventListener("scroll", () => requestAnimationFrame(mark), { passive: true });
    mark();
  }

  // a link into a folded callout opens it
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target?.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      target.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", unfold);
  unfold();
})();
