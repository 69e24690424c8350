// Runs before the page is drawn, so that it never flashes in the wrong theme.
// The theme is the reader's choice if there is one, else what the system prefers.
(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const page = document.documentElement;

  const stored = () => {
    try { return localStorage.getItem("course-theme"); } catch { return null; }
  };
  const preferred = () => (system.matches ? "dark" : "light");

  const apply = (theme) => {
    page.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
  };

  window.toggleTheme = () => {
    const theme = page.dataset.theme === "dark" ? "light" : "dark";
    try {
      // Back at the system's theme: follow the system again.
      if (theme === preferred()) localStorage.removeItem("course-theme");
      else localStorage.setItem("course-theme", theme);
    } catch { /* no storage: the choice lasts for this page */ }
    apply(theme);
  };

  system.addEventListener("change", () => { if (!stored()) apply(preferred()); });
  apply(stored() || preferred());
})();
